#!/bin/sh
# starts the server of this launch as sweep did; secrets are taken from your environment
env \
  SGLANG_LOGGING_CONFIG_PATH='' \
  PYTHONUNBUFFERED=1 \
  PYTHONDONTWRITEBYTECODE='' \
  CUDA_VISIBLE_DEVICES=GPU-d109fd6d-654c-e439-2877-53aa38bdea43,GPU-bbef59ab-0091-33cd-ad54-0deacd613d58 \
/opt/torch/.venv/bin/python3 -m sglang.launch_server \
  --model-path /opt/sglang/site/model/llama8b \
  --served-model-name sweep-346bf0f7-35a6f492 \
  --host 127.0.0.1 \
  --port 16000 \
  --nccl-port 16001 \
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
  --mem-fraction-static 0.80
