"""`run-recipe` under a name that `torch.distributed.run -m` can start."""

import sys

from trainwright_trainer.run_recipe import main

if __name__ == "__main__":
    sys.exit(main())
