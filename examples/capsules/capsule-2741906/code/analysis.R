source("functions.R")
args <- commandArgs(trailingOnly = TRUE)
set.seed(1977)

d <- read.csv("../data/states.csv")
cat(nrow(d), "states,", length(unique(d$region)), "regions\n\n")
fits <- lapply(MODELS, lm, data = d)

# --- Table 1: coefficients
ci <- boot_intervals(fits$plain)
tab1 <- data.frame(
  term = names(coef(fits$plain)),
  estimate = coef(fits$plain),
  low = ci[, 1],
  high = ci[, 2],
  row.names = NULL
)
tab1[-1] <- signif(tab1[-1], 6)
print(tab1)
write.csv(tab1, "../results/tables/table1.csv", row.names = FALSE)

# --- how well do they predict?
cat("\nrms     ", signif(sapply(fits, function(f) rms(residuals(f))), 6), "\n")
cat("rms (-i)", signif(sapply(fits, function(f) rms(deleted(f))), 6), "\n\n")

# --- Table 2: do the regions differ?
n <- as.integer(args[1])
test <- permutation_test(fits$plain, fits$regions, n)
tab2 <- data.frame(added = "region", permutations = n, F = signif(test$F, 6), p = signif(test$p, 6))
print(tab2, row.names = FALSE)
write.csv(tab2, "../results/tables/table2.csv", row.names = FALSE)

# --- Figure 1
pdf("../results/figures/figure1.pdf", width = 6, height = 5, compress = FALSE, useKerning = FALSE)
par(mar = c(4.5, 4.5, 2.5, 1), cex.main = 1)
partial <- residuals(fits$plain) + coef(fits$plain)["murder"] * d$murder
plot(d$murder, partial, type = "n", main = "Figure 1. Life expectancy and murder, all else equal",
     xlab = "murders per 100,000 people", ylab = "partial residual (years)")
abline(0, coef(fits$plain)["murder"], col = "#aa3377")
text(d$murder, partial, d$abb, cex = 0.6)
invisible(dev.off())

# --- Figure 2
pdf("../results/figures/figure2.pdf", width = 7, height = 4, compress = FALSE, useKerning = FALSE)
par(mfrow = c(1, 2), mar = c(4.5, 8, 2.5, 1), oma = c(0, 0, 2, 0), las = 1, cex.main = 0.9)
panels <- c(plain = "(a) without regions", regions = "(b) with regions")
for (m in names(panels)) {
  cook <- cooks.distance(fits[[m]])
  top <- order(cook, decreasing = TRUE)[8:1]
  barplot(cook[top], names.arg = d$state[top], horiz = TRUE, col = "#4477aa", border = NA,
          main = panels[m], xlab = "Cook's distance", cex.names = 0.8)
}
mtext("Figure 2. The states that count most", outer = TRUE, font = 2)
invisible(dev.off())
