#!/bin/sh
# starts the server of this launch as sweep did; secrets are taken from your environment
env \
  SGLANG_LOGGING_CONFIG_PATH='' \
  PYTHONUNBUFFERED=1 \
  PYTHONDONTWRITEBYTECODE='' \
/opt/torch/.venv/bin/python3 -m sglang.launch_server \
  --model-path /tmp/v/site/model/llama8b \
  --served-model-name sweep-49df03a2-0d9f156b \
  --host 127.0.0.1 \
  --port 24480 \
  --nccl-port 24481 \
  --load-format dummy \
  --attention-backend triton \
  --sampling-backend pytorch \
  --random-seed 1 \
  --enable-metrics \
  --enable-cache-report \
  --decode-log-interval 10 \
  --mem-fraction-static 0.80 \
  --max-total-tokens 40000 \
  --hicache-size 200 \
  --enable-hierarchical-cache
