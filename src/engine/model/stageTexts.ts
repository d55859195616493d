/**
 * Continues a prompt with a language model whose layers are on several ranks. A token's values
 * visit the ranks of the first replica in the order of their stages, and return to rank 0, which
 * has the output layer and chooses the next token. The results equal those of `createTokenForward`.
 */
import {
  embedToken,
  createTokenLayer,
  tokenLogits,
  type TokenForward,
  type SingleTokenLayer,
  type Tokenizer,
} from '../../jobs/index.ts';
import type { GptNetworkSize } from '../../jobs/gpt/shapes.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { PIPELINE_TIMEOUT_MS } from '../../parallel/pipeline/pipelineStage.ts';
import { systemClock, EventLoopYielder } from '../../util/clock.ts';
import { continueText, UNINTERRUPTED_COMPUTE_MS, type TextContinuationRequest } from '../tasks/continueText.ts';
import type { PipelineModelStage } from '../pipeline/pipelineModelStage.ts';
import type { StagedWorld } from '../pipeline/stagedWorld.ts';

/** The data that a language model needs for texts, besides its weights. */
export interface TextModelData {
  tokenizer: Tokenizer;
  size: GptNetworkSize;
  seed: number;
}

type StageLayer = Awaited<ReturnType<PipelineModelStage['readLayers']>>[number];

/** A message contains a token's place in the text and its values. The place -1 ends the text. */
const END = -1;
/** Options of the messages with tokens. Other messages of the pipeline have smaller tags. */
const options = { tag: 1024, timeoutMs: PIPELINE_TIMEOUT_MS };

/**
 * Every rank of the world must call it with the same request, between two steps.
 *
 * @returns the text, on every rank; `null` if weights are NaN or infinite.
 */
export async function generateTextOverStages(
  { group, grid, stage }: StagedWorld,
  model: TextModelData,
  request: TextContinuationRequest,
): Promise<string | null> {
  const isOwn = grid.replica === 0;
  const layers = isOwn ? await stage!.readLayers() : [];
  const isFinite = layers.every(({ values }) => values.every((array) => array.every(Number.isFinite)));
  const odd = Float64Array.of(isFinite ? 0 : 1);
  await group.allReduce(odd);
  if (odd[0]! > 0) return null;
  let text = '';
  if (isOwn) {
    const { pipeline } = grid.groups!;
    if (pipeline.rank === 0) text = await lead(pipeline, layers, model, request);
    else await follow(pipeline, layers, model.size);
  }
  return group.broadcastObject(group.rank === 0 ? text : undefined, group.ranks[0]!);
}

/** The part of rank 0: computes the embedding, its layers and the output, and chooses tokens. */
async function lead(
  pipeline: ProcessGroup,
  layers: readonly StageLayer[],
  { tokenizer, size, seed }: TextModelData,
  request: TextContinuationRequest,
): Promise<string> {
  const [[embedding], ...others] = [layers.slice(0, 1), ...layers.slice(1)] as const;
  const { values } = embedding!;
  const first = others
    .filter((layer) => layer.stage === 0)
    .map((layer) => createTokenLayer(layer.name, layer.values, size));
  const last = others
    .filter((layer) => layer.stage > 0)
    .map((layer) => createTokenLayer(layer.name, layer.values, size));
  const ranks = pipeline.worldSize;
  const forward: TokenForward = async (token, place) => {
    let x = through(first, embedToken(token, place, values, size.width), place);
    if (ranks > 1) {
      await pipeline.send(messageOf(place, x), pipeline.ranks[1]!, options);
      const message = new Float32Array(1 + size.width);
      await pipeline.recv(message, pipeline.ranks[ranks - 1], options);
      x = message.subarray(1);
    }
    return tokenLogits(through(last, x, place), values[0]!, tokenizer.size);
  };
  const text = await continueText(forward, { tokenizer, context: size.context, seed }, request);
  if (ranks > 1) await pipeline.send(messageOf(END, new Float32Array(size.width)), pipeline.ranks[1]!, options);
  return text;
}

/** The part of the other ranks: they compute their layers for each token, until the text ends. */
async function follow(pipeline: ProcessGroup, own: readonly StageLayer[], size: GptNetworkSize): Promise<void> {
  const { rank, ranks } = pipeline;
  const layers = own.map(({ name, values }) => createTokenLayer(name, values, size));
  const isLast = rank === ranks.length - 1;
  const yielder = new EventLoopYielder(systemClock, UNINTERRUPTED_COMPUTE_MS);
  for (;;) {
    const message = new Float32Array(1 + size.width);
    await pipeline.recv(message, ranks[rank - 1], options);
    const place = message[0]!;
    if (place === END && isLast) return;
    const sent = place === END ? message : messageOf(place, through(layers, message.subarray(1), place));
    await pipeline.send(sent, ranks[isLast ? 0 : rank + 1]!, options);
    if (place === END) return;
    await yielder.yieldIfDue();
  }
}

function through(layers: readonly SingleTokenLayer[], x: Float32Array, place: number): Float32Array {
  return layers.reduce((value, layer) => layer(value, place), x);
}

function messageOf(place: number, x: Float32Array): Float32Array {
  const message = new Float32Array(1 + x.length);
  message[0] = place;
  message.set(x, 1);
  return message;
}
