"""What every local rank has imported before it is forked (see `local_ranks`)."""

from trainwright.runner.devices import use_device

use_device("cpu")

import megatron.core.datasets.blended_dataset  # noqa: E402  # nothing of Megatron may come before the device
import megatron.core.distributed  # noqa: E402
import megatron.core.models.mimo.model.base  # noqa: E402  # which building its optimizer imports
import megatron.core.optimizer  # noqa: E402
import megatron.core.pipeline_parallel  # noqa: E402, F401

import trainwright.datasets  # noqa: E402
import trainwright.recipes.pipeline  # noqa: E402
import trainwright.report_schema.parsers  # noqa: E402
import trainwright.runner.checkpoints.saving  # noqa: E402
import trainwright.runner.loop  # noqa: E402
import trainwright.runner.models  # noqa: E402
import trainwright.runner.models.language_model  # noqa: E402
import trainwright.runner.optim  # noqa: E402
import trainwright.runner.resume  # noqa: E402
import trainwright.runner.run  # noqa: E402, F401
