"""Evaluates a trained model: `python -m tfdml.evaluate --run_dir=runs/quickstart`. Prints one line of JSON, last."""

import json

from absl import flags

from tfdml import command
from tfdml import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("dataset", "", "Dataset spec to evaluate on; empty: the run's own.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset; empty: the run's own.")
flags.DEFINE_string("protocol", "", "Protocol spec; empty: the run's own, or the dataset's.")
flags.DEFINE_list("metrics", [], "Metrics, such as recall_at_1,map_at_r,nmi; empty: the run's own, or the protocol's.")


def main():
    from tfdml.run.experiment import trained

    replaced = ("dataset", "data_dir", "protocol", "metrics")
    changes = {name: flags.FLAGS[name].value for name in replaced if flags.FLAGS[name].value}
    if "dataset" in changes:
        # These settings of the run are only for its own dataset.
        changes = {"protocol": "", "metrics": [], "ignore_images": "", **changes}
    experiment, model = trained(flags.FLAGS.run_dir, flags.FLAGS.model, changes)
    metrics = experiment.measure(model, experiment.splits.test)
    about = {"run_dir": flags.FLAGS.run_dir, "model": flags.FLAGS.model, "dataset": experiment.settings.dataset}
    protocol = experiment.settings.protocol or experiment.splits.dataset.protocol
    print(json.dumps({**about, "split": "test", "protocol": protocol, **metrics}))


if __name__ == "__main__":
    command.run(main)
