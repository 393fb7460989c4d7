"""What it cost, and which peers bore it."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.sql import beside, by_window, grouped_by

IS_TRACED = "sent_rpcs + received_rpcs + deliveries > 0"
"""Whether a peer of `load` has a trace of its own."""


def control(control: DataFrame, deliveries: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `control`: control messages sent, by kind, and per delivery in the same window."""
    table = grouped_by(
        by_window(control.where("direction = 'send'"), "time", params), ["run", "window", "kind"],
        sends="count(*)", ids="sum(ids)",
        # Of some traces only, it would be too little for what all delivered.
        bytes="CASE WHEN count(bytes) = count(*) THEN sum(bytes) END",
    )  # fmt: skip
    came = by_window(deliveries.where("NOT origin"), "time", params)
    counted = grouped_by(came, ["run", "window"], deliveries="count(*)")
    counted = counted.toDF("of_run", "of_window", "deliveries")
    same = F.expr("run = of_run AND window <=> of_window")
    shares = (f"{name} / deliveries AS {name}_per_delivery" for name in ("sends", "ids", "bytes"))
    return table.join(F.broadcast(counted), same, "left").selectExpr(*table.columns, *shares)


def load(totals: DataFrame, deliveries: DataFrame) -> DataFrame:
    """The table `load`: what each peer sent and received; of a peer whose own trace isn't there,
    only what others got from it (`children`)."""
    columns = {"messages": "messages", "control": "control", "bytes": "size",
               "payload_bytes": "payload", "rpcs": "rpcs"}  # fmt: skip
    sums = {
        f"{said}_{name}": f"sum(CASE WHEN direction = '{direction}' THEN {column} END)"
        for direction, said in (("send", "sent"), ("recv", "received"))
        for name, column in columns.items()
    }
    key = ["run", "peer"]
    table = grouped_by(totals.where("peer IS NOT NULL"), key, **sums)
    relayed = (
        deliveries.where("parent IS NOT NULL").drop("peer").withColumnRenamed("parent", "peer")
    )
    children = grouped_by(relayed, key, children="count(*)")
    table = beside(key, table, children, grouped_by(deliveries, key, deliveries="count(*)"))
    # Bytes stay null where no trace has them.
    counts = [name for name in table.columns if name not in key and not name.endswith("bytes")]
    return table.fillna(0, counts)


def balance(load: DataFrame) -> DataFrame:
    """The table `balance`: the Gini coefficient of each figure of `load`, over the peers whose
    trace has RPCs or deliveries."""
    measured = [name for name in load.columns if name not in ("run", "peer")]
    pairs = ", ".join(f"struct('{name}' AS figure, double({name}) AS value)" for name in measured)
    long = load.where(IS_TRACED).selectExpr("run", f"inline(array({pairs}))")
    of_figure = Window.partitionBy("run", "figure").orderBy("value")
    ranked = long.where("value IS NOT NULL").withColumn("rank", F.row_number().over(of_figure))
    gini = "2 * sum(rank * value) / (count(*) * sum(value)) - (count(*) + 1) / count(*)"
    return grouped_by(
        ranked, ["run", "figure"], peers="count(*)", mean="avg(value)", max="max(value)",
        gini=f"CASE WHEN sum(value) > 0 THEN {gini} ELSE 0D END",
    )  # fmt: skip


def losses(losses: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `losses`: rejects, drops and discards by reason."""
    windowed = by_window(losses, "time", params)
    return grouped_by(windowed, ["run", "topic", "window", "kind", "reason"], count="sum(count)")
