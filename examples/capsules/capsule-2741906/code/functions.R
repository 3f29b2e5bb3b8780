# Used by analysis.R.

# Life expectancy on the murder rate, schooling, frost and size, and on the regions too
MODELS <- list(
  plain   = life_exp ~ murder + hs_grad + frost + log10(population),
  regions = life_exp ~ murder + hs_grad + frost + log10(population) + region
)

# Percentile intervals (95 %) of the coefficients, states drawn anew with replacement
boot_intervals <- function(fit, B = 2000) {
  X <- model.matrix(fit)
  y <- model.response(model.frame(fit))
  n <- length(y)
  draws <- replicate(B, {
    i <- sample.int(n, n, replace = TRUE)
    lm.fit(X[i, ], y[i])$coefficients
  })
  t(apply(draws, 1, quantile, probs = c(0.025, 0.975)))
}

# F of `full` against `reduced` for the response y
f_ratio <- function(y, reduced, full) {
  r0 <- lm.fit(reduced, y)
  r1 <- lm.fit(full, y)
  rss0 <- sum(r0$residuals^2)
  rss1 <- sum(r1$residuals^2)
  ((rss0 - rss1) / (r0$df.residual - r1$df.residual)) / (rss1 / r1$df.residual)
}

# Freedman & Lane (1983): the residuals of the reduced model are permuted and put back onto its fit
permutation_test <- function(fit0, fit1, n) {
  X0 <- model.matrix(fit0)
  X1 <- model.matrix(fit1)
  e <- residuals(fit0)
  mu <- fitted(fit0)
  f_obs <- f_ratio(mu + e, X0, X1)
  f_perm <- numeric(0)
  for (k in seq_len(n)) f_perm[k] <- f_ratio(mu + sample(e), X0, X1)
  list(F = f_obs, p = (1 + sum(f_perm >= f_obs)) / (n + 1))
}

rms <- function(x) sqrt(mean(x^2))

# Prediction errors, each state left out in turn
deleted <- function(fit) residuals(fit) / (1 - hatvalues(fit))
