"""Penguins by their measurements: how body mass grows with flipper length, and how well four measurements tell species.

Reads ../data/penguins.csv, writes tables and figures to ../results (both seen from this file's folder).
"""

import csv
import math
import random
from pathlib import Path

import plainfig

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "penguins.csv"
RESULTS = HERE.parent / "results"

MEASUREMENTS = {
    "bill length": "bill_length_mm",
    "bill depth": "bill_depth_mm",
    "flipper length": "flipper_length_mm",
    "body mass": "body_mass_g",
}
RESAMPLES = 2000
SEED = 20140305
NEIGHBOURS = 7


def read_birds():
    """The birds with all four measurements, in the file's order: (species, {measurement: value})."""
    with DATA.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "NA" not in [row[column] for column in MEASUREMENTS.values()]]
    return [(row["species"], {name: float(row[column]) for name, column in MEASUREMENTS.items()}) for row in rows]


# --- body mass on flipper length -------------------------------------------------------------------------------------


def moments(pairs):
    """Sums of squares and products about the mean, of (flipper length, body mass) pairs: (Sxx, Sxy)."""
    mean_x = math.fsum(x for x, _ in pairs) / len(pairs)
    mean_y = math.fsum(y for _, y in pairs) / len(pairs)
    return (
        math.fsum((x - mean_x) ** 2 for x, _ in pairs),
        math.fsum((x - mean_x) * (y - mean_y) for x, y in pairs),
    )


def common_slope(groups):
    """The slope shared by all groups, each with an intercept of its own (analysis of covariance)."""
    parts = [moments(pairs) for pairs in groups]
    return math.fsum(sxy for _, sxy in parts) / math.fsum(sxx for sxx, _ in parts)


def bootstrap(groups, rng):
    """The common slope with its percentile bootstrap interval of 95 %, birds drawn anew within each group."""
    slopes = []
    for _ in range(RESAMPLES):
        slopes.append(common_slope([[pairs[int(rng.random() * len(pairs))] for _ in pairs] for pairs in groups]))
    slopes.sort()
    tail = RESAMPLES // 40
    return slopes[tail - 1], common_slope(groups), slopes[-tail]


# --- nearest neighbours ----------------------------------------------------------------------------------------------


def standardised(birds, names):
    """Each bird's values of the measurements `names`, as numbers of standard deviations from the mean."""
    columns = []
    for name in names:
        values = [bird[name] for _, bird in birds]
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
        columns.append([(value - mean) / deviation for value in values])
    return list(zip(*columns, strict=True))


def misclassified(birds, names):
    """(true species, voted species) of each bird whose nearest neighbours among all other birds vote for another."""
    points = standardised(birds, names)
    wrong = []
    for i, (species, _) in enumerate(birds):
        distances = sorted((math.dist(points[i], point), j) for j, point in enumerate(points) if j != i)
        nearest = [birds[j][0] for _, j in distances[:NEIGHBOURS]]
        vote = max(sorted(set(nearest)), key=nearest.count)
        if vote != species:
            wrong.append((species, vote))
    return wrong


# --- tables and figures ----------------------------------------------------------------------------------------------


def write_table(name, header, rows):
    """Write the table to a file of the results, and print it."""
    with (RESULTS / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    print(f"== {name}")
    for row in [header, *rows]:
        print("  ".join(str(cell).ljust(22) for cell in row).rstrip())
    print()


def main():
    RESULTS.mkdir(exist_ok=True)
    birds = read_birds()
    species = sorted({name for name, _ in birds})
    print(f"{len(birds)} birds with all measurements\n")

    groups = {s: [(b["flipper length"], b["body mass"]) for name, b in birds if name == s] for s in species}
    rng = random.Random(SEED)
    slopes = {"within species": bootstrap(list(groups.values()), rng)}
    slopes |= {s: bootstrap([pairs], rng) for s, pairs in groups.items()}
    rows = [(name, low, estimate, high) for name, (low, estimate, high) in slopes.items()]
    write_table("slopes.csv", ("birds", "low", "slope_g_per_mm", "high"), rows)
    plainfig.intervals(
        RESULTS / "figure1_slopes.svg",
        list(slopes),
        list(slopes.values()),
        title="Figure 1. Growth of body mass with flipper length",
        x_label="birds",
        y_label="slope (g/mm), 95 % interval",
    )

    every = list(MEASUREMENTS)
    left_out = {name: misclassified(birds, [other for other in every if other != name]) for name in every}
    errors = {"none": misclassified(birds, every), **left_out}
    rows = [(name, len(wrong), 1 - len(wrong) / len(birds)) for name, wrong in errors.items()]
    write_table("classification.csv", ("left_out", "errors", "accuracy"), rows)
    plainfig.bars(
        RESULTS / "figure2_errors.svg",
        list(errors),
        [len(wrong) for wrong in errors.values()],
        title="Figure 2. Birds given the wrong species",
        x_label="measurement left out",
        y_label="birds",
    )


if __name__ == "__main__":
    main()
