"""Layers that the pipeline stages cannot share stop the building of the model."""

from upstream import first, namespace

RULES = ("TOP104",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    config = namespace(
        num_layers=32 if good else 30,
        pipeline_model_parallel_size=4,
        virtual_pipeline_model_parallel_size=2,
        pipeline_model_parallel_layout=None,
        num_layers_in_first_pipeline_stage=None,
        num_layers_in_last_pipeline_stage=None,
        account_for_embedding_in_pipeline_split=False,
        account_for_loss_in_pipeline_split=False,
    )
    first("megatron.core.transformer.transformer_block").get_num_layers_to_build(config, vp_stage=0, pp_rank=0)
    return None
