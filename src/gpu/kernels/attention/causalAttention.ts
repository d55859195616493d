/**
 * Causal self-attention with several heads (Vaswani et al., "Attention Is All You Need", 2017). Its
 * kernels follow Dao, "FlashAttention-2" (2023, arXiv 2307.08691): a workgroup owns a tile of
 * queries or keys, and visits the other tiles in a fixed order, so scores exist only in workgroup
 * memory and sums have a fixed order. Unlike in that paper, the forward pass does not keep the
 * logarithm of the sum of exponentials, because a program has one output. The backward pass
 * computes this logarithm again, together with the row sums of dY * Y.
 */
import * as tf from '@tensorflow/tfjs';
import { runGpuProgram, spreadWorkgroups, type BufferComponentCount, type GpuProgram } from '../../program.ts';
import { hasKernel, type KernelArguments, type TrainingOp } from '../registry.ts';
import { keysGradientCode, queriesGradientCode } from './backward.ts';
import { attentionForwardCode, attentionStatisticsCode } from './forward.ts';
import {
  MAX_ATTENTION_HEAD_DEPTH,
  ATTENTION_TILE_THREADS,
  ATTENTION_TILE_ROWS,
  attentionTilesOf,
  type AttentionTiles,
} from './tiles.ts';

/** Score of masked positions. -Infinity would become NaN when it is subtracted from itself. */
const MASKED = -1e9;

/** Returns float32 [context, context]: 0 for visible positions, otherwise {@link MASKED}. */
export function causalMask(context: number): tf.Tensor2D {
  const mask = Float32Array.from({ length: context * context }, (_, at) =>
    at % context > Math.floor(at / context) ? MASKED : 0,
  );
  return tf.tensor2d(mask, [context, context]);
}

/**
 * The result at a position is a weighted mean of the values at this position and all earlier ones.
 * The weights are the softmax of query . key / sqrt(depth), with the query of this position and the
 * key of each of these positions. Runs as kernels if `depth` is a multiple of 4 and at most 128.
 *
 * @param qkv float32 [batch, context, 3 * width]. Its last axis is [queries, keys, values], each
 *   [heads, depth].
 * @param heads a divisor of `width`
 * @param mask {@link causalMask} of the context; only used without kernels.
 * @returns float32 [batch, context, width]
 */
export function causalAttention(qkv: tf.Tensor3D, heads: number, mask: tf.Tensor): tf.Tensor3D {
  const depth = qkv.shape[2] / (3 * heads);
  if (hasKernel('CausalAttention') && depth % 4 === 0 && depth <= MAX_ATTENTION_HEAD_DEPTH) {
    return tf.engine().runKernel('CausalAttention', { qkv }, { heads }) as tf.Tensor3D;
  }
  return tf.tidy(() => composed(qkv, heads, mask));
}

function composed(qkv: tf.Tensor3D, heads: number, mask: tf.Tensor): tf.Tensor3D {
  const [, context, packed] = qkv.shape;
  const depth = packed / (3 * heads);
  const all = qkv.reshape<tf.Tensor4D>([-1, context, 3 * heads, depth]);
  const [queries, keys, values] = tf.split(all.transpose([0, 2, 1, 3]), 3, 1);
  const scores = tf.matMul(queries!.mul(1 / Math.sqrt(depth)), keys!, false, true).add(mask);
  // tf.softmax returns wrong results on WebGPU for more than 65 536 rows.
  const taken = tf.matMul(tf.exp(tf.logSoftmax(scores)), values!);
  return taken.transpose([0, 2, 1, 3]).reshape([-1, context, heads * depth]);
}

interface Run extends Pick<GpuProgram, 'outputComponents'> {
  name: string;
  code: (tiles: AttentionTiles) => string;
  inputs: Record<string, { tensor: tf.TensorInfo; components: BufferComponentCount }>;
  shape: readonly number[];
  /** Tensor that receives the result; by default a new tensor of `shape`. */
  output?: tf.TensorInfo;
}

/** Runs a program with a workgroup for each tile of each head of each sample. */
function run(
  { attrs, backend, inputs: { qkv } }: KernelArguments<tf.NamedAttrMap>,
  { name, code, inputs, shape, outputComponents = 4, output }: Run,
): tf.TensorInfo {
  const heads = attrs['heads'] as number;
  const [batch, context, packed] = qkv!.shape as [number, number, number];
  const depth = packed / (3 * heads);
  const program: GpuProgram = {
    key: `${name}${depth}`,
    inputs: Object.fromEntries(Object.entries(inputs).map(([input, { components }]) => [input, components])),
    outputComponents,
    uniforms: {
      batch: { type: 'i32', value: batch },
      context: { type: 'i32', value: context },
      heads: { type: 'i32', value: heads },
    },
    workgroupSize: [ATTENTION_TILE_THREADS, 1, 1],
    dispatch: spreadWorkgroups(backend, Math.ceil(context / ATTENTION_TILE_ROWS) * batch * heads),
    code: () => code(attentionTilesOf(depth)),
  };
  const tensors = Object.values(inputs).map(({ tensor }) => tensor);
  return runGpuProgram(backend, program, tensors, shape, output);
}

function forward(args: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const qkv = args.inputs['qkv']!;
  const [batch, context, packed] = qkv.shape as [number, number, number];
  return run(args, {
    name: 'attention',
    code: attentionForwardCode,
    inputs: { qkv: { tensor: qkv, components: 4 } },
    shape: [batch, context, packed / 3],
  });
}

/** @returns the gradient of qkv, from the inputs qkv, y and dy. */
function backward(args: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const [qkv, y, dy] = ['qkv', 'y', 'dy'].map((name) => ({ tensor: args.inputs[name]!, components: 4 as const }));
  const { shape } = qkv!.tensor;
  const [batch, context] = shape as [number, number, number];
  const statistics = run(args, {
    name: 'attentionStatistics',
    code: attentionStatisticsCode,
    inputs: { qkv: qkv!, y: y!, dy: dy! },
    shape: [batch, args.attrs['heads'] as number, context, 2],
    outputComponents: 2,
  });
  const inputs = { qkv: qkv!, dy: dy!, statistics: { tensor: statistics, components: 2 as const } };
  const dqkv = run(args, { name: 'attentionQueriesGradient', code: queriesGradientCode, inputs, shape });
  run(args, { name: 'attentionKeysGradient', code: keysGradientCode, inputs, shape, output: dqkv });
  args.backend.disposeData(statistics.dataId);
  return dqkv;
}

export const causalAttentionOps: readonly TrainingOp[] = [
  {
    kernelName: 'CausalAttention',
    run: forward,
    gradient: {
      inputsToSave: ['qkv'],
      outputsToSave: [true],
      gradFunc: (dy, [qkv, y], attrs) => ({
        qkv: () =>
          tf
            .engine()
            .runKernel(
              'CausalAttentionGradient',
              { qkv: qkv!, y: y!, dy: dy as tf.Tensor },
              { heads: attrs['heads'] as number },
            ) as tf.Tensor,
      }),
    },
  },
  { kernelName: 'CausalAttentionGradient', run: backward },
];
