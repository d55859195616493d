/**
 * Embeddings of tokens and their positions: a gather, whose gradient sums the gradients of equal
 * tokens in a fixed order. The gradient of TensorFlow.js's `gather` adds them in an undefined
 * order.
 */
import * as tf from '@tensorflow/tfjs';
import { elementCountOf } from '../../util/shape.ts';
import { FLAT_WORKGROUP_CODE, runGpuProgram, spreadWorkgroups, type GpuProgram } from '../program.ts';
import { hasKernel, usesOwnKernels, type KernelArguments, type TrainingOp } from './registry.ts';
import { loadWidthOf, elementCode } from './rows.ts';

/**
 * Returns (table[token] + positions[position]) * mask for each token. A token without a row in the
 * table has a row of zeros. The mask has no gradient.
 *
 * @param tokens int32 [batch, context]
 * @param table float32 [vocabulary, width]
 * @param positions float32 [context, width]
 * @param mask dropout mask, float32 [batch, 1, width]
 * @returns float32 [batch, context, width]
 */
export function embedTokens(
  tokens: tf.Tensor2D,
  table: tf.Tensor,
  positions: tf.Tensor,
  mask?: tf.Tensor,
): tf.Tensor3D {
  if (usesOwnKernels()) {
    if (!mask) return tf.engine().runKernel('Embed', { tokens, table, positions }) as tf.Tensor3D;
    return tf.engine().runKernel('EmbedMasked', { tokens, table, positions, mask }) as tf.Tensor3D;
  }
  return tf.tidy(() => {
    const width = table.shape[1]!;
    const looked = lookUp(tokens.flatten(), table).reshape<tf.Tensor3D>([...tokens.shape, width]);
    const sum = looked.add<tf.Tensor3D>(positions);
    return mask ? sum.mul(mask) : sum;
  });
}

/**
 * Name of the kernel that looks up rows of a table, where a backend has one (see `wasmKernels.ts`).
 */
export const LOOK_UP_KERNEL_NAME = 'LookUp';

function lookUp(tokens: tf.Tensor1D, table: tf.Tensor): tf.Tensor {
  if (hasKernel(LOOK_UP_KERNEL_NAME)) return tf.engine().runKernel(LOOK_UP_KERNEL_NAME, { tokens, table }) as tf.Tensor;
  return tf.matMul(tf.cast(tf.oneHot(tokens, table.shape[0]), 'float32'), table);
}

/**
 * Threads of a workgroup: two subgroups of most GPUs. More threads would be idle if there are few
 * tokens.
 */
const THREADS = 64;
/** Tokens that a thread compares in each round. */
const TOKENS_PER_THREAD = 16;

const FORWARD = `
fn main() {
  let i = flatWorkgroup() * ${THREADS} + i32(localIndex);
  if (i >= uniforms.count) { return; }
  let at = i / uniforms.columns;
  let column = i % uniforms.columns;
  let token = tokens[at];
  var sum = positions[(at % uniforms.context) * uniforms.columns + column];
  if (token >= 0 && token < uniforms.vocabulary) { sum += table[token * uniforms.columns + column]; }
  result[i] = sum * maskAt(at / uniforms.context, column);
}
`;

/**
 * A workgroup sums the gradients of one token; each thread sums one column. First, the threads
 * together list the positions of the token: each thread counts the positions that it finds, and a
 * prefix sum (Hillis and Steele, "Data parallel algorithms", 1986) tells the thread where to write
 * them.
 */
const TABLE_GRADIENT = `
var<workgroup> counts: array<i32, ${THREADS}>;
var<workgroup> places: array<i32, ${THREADS * TOKENS_PER_THREAD}>;
fn isHere(at: i32, token: i32) -> bool { return at < uniforms.tokens && tokens[min(at, uniforms.tokens - 1)] == token; }
fn main() {
  let thread = i32(localIndex);
  let tiles = (uniforms.columns + ${THREADS - 1}) / ${THREADS};
  // Workgroups after the last token compute the last one too, because WGSL rejects barriers after a
  // return.
  let token = min(flatWorkgroup() / tiles, uniforms.vocabulary - 1);
  let column = (flatWorkgroup() % tiles) * ${THREADS} + thread;
  var sum = Element();
  for (var first = 0; first < uniforms.tokens; first += ${THREADS * TOKENS_PER_THREAD}) {
    var own = 0;
    for (var i = 0; i < ${TOKENS_PER_THREAD}; i++) {
      if (isHere(first + i * ${THREADS} + thread, token)) { own++; }
    }
    counts[thread] = own;
    for (var distance = 1; distance < ${THREADS}; distance *= 2) {
      workgroupBarrier();
      var before = 0;
      if (thread >= distance) { before = counts[thread - distance]; }
      workgroupBarrier();
      counts[thread] += before;
    }
    var next = counts[thread] - own;
    for (var i = 0; i < ${TOKENS_PER_THREAD}; i++) {
      let at = first + i * ${THREADS} + thread;
      if (isHere(at, token)) {
        places[next] = at;
        next++;
      }
    }
    workgroupBarrier();
    if (column < uniforms.columns) {
      for (var i = 0; i < counts[${THREADS - 1}]; i++) {
        let at = places[i];
        sum += dy[at * uniforms.columns + column] * maskAt(at / uniforms.context, column);
      }
    }
    workgroupBarrier();
  }
  if (column < uniforms.columns) { result[token * uniforms.columns + column] = sum; }
}
`;

const POSITIONS_GRADIENT = `
fn main() {
  let i = flatWorkgroup() * ${THREADS} + i32(localIndex);
  let size = uniforms.context * uniforms.columns;
  if (i >= size) { return; }
  var sum = Element();
  for (var sample = 0; sample < uniforms.tokens / uniforms.context; sample++) {
    sum += dy[sample * size + i] * maskAt(sample, i % uniforms.columns);
  }
  result[i] = sum;
}
`;

/** The lengths of the op's tensors. */
interface Sizes {
  tokens: number;
  context: number;
  vocabulary: number;
  width: number;
}

/**
 * Runs a program that computes a tensor of `shape`. `workgroups` returns the number of workgroups
 * for rows of `columns` elements.
 */
function runOn(
  { inputs, backend }: KernelArguments<tf.NamedAttrMap>,
  key: string,
  code: string,
  names: readonly string[],
  { tokens, context, vocabulary, width }: Sizes,
  shape: readonly number[],
  workgroups: (columns: number) => number,
): tf.TensorInfo {
  const components = loadWidthOf(width);
  const columns = width / components;
  const mask = inputs['mask'];
  const maskCode = mask
    ? 'fn maskAt(sample: i32, column: i32) -> Element { return mask[sample * uniforms.columns + column]; }'
    : 'fn maskAt(sample: i32, column: i32) -> Element { return Element(1.0); }';
  const used = mask ? [...names, 'mask'] : names;
  const program: GpuProgram = {
    key: `${key} ${components} ${mask ? 'masked' : ''}`,
    inputs: Object.fromEntries(used.map((name) => [name, name === 'tokens' ? 1 : components])),
    outputComponents: components,
    uniforms: {
      tokens: { type: 'i32', value: tokens },
      context: { type: 'i32', value: context },
      vocabulary: { type: 'i32', value: vocabulary },
      columns: { type: 'i32', value: columns },
      count: { type: 'i32', value: elementCountOf(shape) / components },
    },
    workgroupSize: [THREADS, 1, 1],
    dispatch: spreadWorkgroups(backend, workgroups(columns)),
    code: () => elementCode(components) + FLAT_WORKGROUP_CODE + maskCode + code,
  };
  const tensors = used.map((name) => inputs[name]!);
  return runGpuProgram(backend, program, tensors, shape);
}

function forward(own: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const [batch, context] = own.inputs['tokens']!.shape as [number, number];
  const [vocabulary, width] = own.inputs['table']!.shape as [number, number];
  const sizes = { tokens: batch * context, context, vocabulary, width };
  const workgroups = (columns: number): number => Math.ceil((sizes.tokens * columns) / THREADS);
  const names = ['tokens', 'table', 'positions'];
  return runOn(own, 'embed', FORWARD, names, sizes, [batch, context, width], workgroups);
}

function sizesOf({ inputs, attrs }: KernelArguments<tf.NamedAttrMap>): Sizes {
  const [batch, context, width] = inputs['dy']!.shape as [number, number, number];
  return { tokens: batch * context, context, vocabulary: attrs['vocabulary'] as number, width };
}

function gradientByTable(own: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const sizes = sizesOf(own);
  const workgroups = (columns: number): number => sizes.vocabulary * Math.ceil(columns / THREADS);
  const shape = [sizes.vocabulary, sizes.width];
  return runOn(own, 'embedTableGradient', TABLE_GRADIENT, ['tokens', 'dy'], sizes, shape, workgroups);
}

function gradientByPositions(own: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const sizes = sizesOf(own);
  const workgroups = (columns: number): number => Math.ceil((sizes.context * columns) / THREADS);
  const shape = [sizes.context, sizes.width];
  return runOn(own, 'embedPositionsGradient', POSITIONS_GRADIENT, ['dy'], sizes, shape, workgroups);
}

/**
 * Returns the op for calls with a mask, or the op for calls without one. There are two ops, because
 * TensorFlow.js does not let ops save optional inputs.
 */
function embedOp(kernelName: string, masks: readonly string[]): TrainingOp {
  return {
    kernelName,
    run: forward,
    gradient: {
      inputsToSave: ['tokens', 'table', ...masks],
      gradFunc: (dys, saved) => {
        const [tokens, table, mask] = saved as [tf.Tensor, tf.Tensor, tf.Tensor?];
        const inputs = { tokens, dy: dys as tf.Tensor, ...(mask && { mask }) };
        const run = (name: string): tf.Tensor =>
          tf.engine().runKernel(name, inputs, { vocabulary: table.shape[0] }) as tf.Tensor;
        return { table: () => run('EmbedTableGradient'), positions: () => run('EmbedPositionsGradient') };
      },
    },
  };
}

export const embeddingOps: readonly TrainingOp[] = [
  embedOp('Embed', []),
  embedOp('EmbedMasked', ['mask']),
  { kernelName: 'EmbedTableGradient', run: gradientByTable },
  { kernelName: 'EmbedPositionsGradient', run: gradientByPositions },
];
