"""Variables of the training process."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def names_can_be_set(plan: Plan) -> None:
    """An operating system takes any name without an equals sign, and any text without a null character."""
    for name, value in plan.config.env_vars.items():
        if not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"env_vars: {name!r} with value {value!r} cannot be set as an environment variable")


RULES = (names_can_be_set,)
