#!/bin/sh
# starts the server of this launch as sweep did; secrets are taken from your environment
env \
  SGLANG_LOGGING_CONFIG_PATH='' \
  PYTHONUNBUFFERED=1 \
  PYTHONDONTWRITEBYTECODE='' \
/opt/torch/.venv/bin/python3 -m sglang.launch_server \
  --model-path /tmp/v/site/model/llama8b \
  --served-model-name sweep-2f02c614-2d44704f \
  --host 127.0.0.1 \
  --port 12120 \
  --nccl-port 12121 \
  --load-format dummy \
  --attention-backend triton \
  --sampling-backend pytorch \
  --random-seed 1 \
  --tp-size 2 \
  --disable-custom-all-reduce \
  --disable-cuda-graph \
  --enable-metrics \
  --enable-cache-report \
  --decode-log-interval 10 \
  --mem-fraction-static 0.80 \
  --hicache-size 160 \
  --enable-hierarchical-cache
