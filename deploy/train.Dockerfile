# Training, on GPUs where docker run gets --gpus=all:
#   docker build --file deploy/train.Dockerfile --tag tfdml-train .
#   docker run --gpus=all --volume="$PWD:/work" tfdml-train tfdml.train --flagfile=/work/mine.flags --run_dir=/work/runs/mine
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 tfdml
COPY setup.py pyproject.toml README.md LICENSE /source/
COPY tfdml /source/tfdml
COPY pipelines /source/pipelines
RUN pip install --no-cache-dir '/source[gpu,pgvector,qdrant]' && rm -rf /source

USER 1000
WORKDIR /work
ENTRYPOINT ["python", "-m"]
CMD ["tfdml.train", "--helpshort"]
