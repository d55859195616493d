/** Memory of the ranks of a pipeline by formula. The functions are pure. */
import { stagesOfRank, type PipelinePlan } from '../../src/parallel/pipeline/schedules.ts';

const BYTES = Float32Array.BYTES_PER_ELEMENT;
/** Copies of a weight: its value, its gradient, and Adam's two averages. */
const STATE_COPIES = 4;
/** Tensors of a micro-batch that each rank loads: tokens, next tokens and their weights. */
const BATCH_TENSORS = 3;

/** A layer of the chain. */
export interface ChainLayer {
  name: string;
  weights: number;
  /** Bytes that a forward pass of a micro-batch keeps for the backward pass. */
  keptBytes: number;
}

/** The size of a micro-batch. */
export interface MicroBatchSize {
  /** Tokens of all samples, and channels. */
  tokens: number;
  width: number;
  /** Whether layers are computed again, so that only their outputs are kept. */
  recompute: boolean;
}

/** Memory of a rank in bytes. */
export interface RankMemory {
  /** Values, gradients and averages on the CPU: 4K/S on average. */
  state: number;
  /** Weights on the device, and the sums of their gradients. */
  device: number;
  activations: number;
}

/**
 * Returns the memory of each rank of a ring when it needs the most, at the end of a forward pass or
 * of the step.
 *
 * @param layersOfRanks names of the layers of each rank, as in the result of a run.
 */
export function ringMemory(
  plan: PipelinePlan,
  chain: readonly ChainLayer[],
  layersOfRanks: readonly (readonly string[])[],
  { tokens, width, recompute }: MicroBatchSize,
): RankMemory[] {
  /** Bytes of the value between two layers. */
  const value = tokens * width * BYTES;
  const stages = stagesOf(chain, layersOfRanks);
  const isLast = (stage: number): boolean => stage === stages.length - 1;
  // A stage also keeps its input, and the last one the gradient of its output. The input of the
  // first stage is one of the tensors that are loaded anyway.
  const keptOf = stages.map(
    (layers, stage) =>
      layers.reduce((sum, { keptBytes }) => sum + (recompute ? value : keptBytes), 0) +
      (stage === 0 ? 0 : value) +
      (isLast(stage) ? value : 0),
  );
  const inputs = BATCH_TENSORS * plan.microBatches * tokens * BYTES;
  return plan.passes.map((passes, rank) => {
    const own = stagesOfRank(plan, rank).flatMap((stage) => stages[stage]!);
    const weights = own.reduce((sum, layer) => sum + layer.weights, 0) * BYTES;
    let activations = inputs;
    let device = weights;
    let most = { device: 2 * weights, activations };
    for (const { kind, stage } of passes) {
      activations += (kind === 'forward' ? 1 : -1) * keptOf[stage]!;
      // There are sums of gradients after a backward pass. The loss is differentiated at once.
      if (kind === 'backward' || isLast(stage)) device = 2 * weights;
      if (device + activations > most.device + most.activations) most = { device, activations };
    }
    return { state: STATE_COPIES * weights, ...most };
  });
}

/** Returns the layers of each stage. The first rank has those of the first and the last stage. */
function stagesOf(chain: readonly ChainLayer[], layersOfRanks: readonly (readonly string[])[]): ChainLayer[][] {
  let at = chain.findIndex(({ name }) => name === layersOfRanks[1]?.[0]);
  const first = chain.slice(0, at);
  const middle = layersOfRanks.slice(1).map(({ length }) => chain.slice(at, (at += length)));
  return [first, ...middle, chain.slice(at)];
}
