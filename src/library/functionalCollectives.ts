/**
 * Collectives on tensors and typed arrays that return new values, like torch.distributed's
 * functional collectives. The methods of {@link ProcessGroup} with the same names write to typed
 * arrays in place.
 *
 * The dtype of a tensor must be float32, int32 or bool. Dtype and shape must be the same on every
 * rank. The result is a new tensor with this dtype and shape. The caller disposes of it. For a
 * typed array, the result is a new typed array. Arguments are never changed, not even variables:
 * pass the result to `variable.assign`. An argument may be disposed of as soon as the function has
 * returned its promise. Gradients do not flow through a collective.
 *
 * Every rank must make the same calls in the same order, as with the methods of the group. A tensor
 * is read from the GPU after the call, and the collective keeps its place among the calls. `sizes`
 * and splits count entries of the first dimension. On a rank that is not a member, a collective
 * only copies the rank's own values.
 */
import { newZeros, type TypedArray } from '../collectives/dtypes.ts';
import type {
  AllReduceOptions,
  AllToAllOptions,
  OpOptions,
  ReduceOptions,
  RootedOptions,
  SizesOptions,
} from '../collectives/options.ts';
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { UsageError } from '../util/errors.ts';
import {
  checkBoolReduction,
  emptyArgumentPayloadOf,
  argumentPayloadOf,
  type FunctionalCollectiveOptions,
  type ArgumentPayload,
  type ResultOf,
  type Values,
} from './payload.ts';

type Results<V extends readonly Values[]> = { -readonly [K in keyof V]: ResultOf<V[K]> };

/**
 * Combines `values` over all ranks. Every rank resolves with the same bits.
 *
 * @param options `op`: SUM by default. AVG and PREMUL_SUM need float32. A bool tensor supports MIN
 *   (and), MAX (or), BAND, BOR and BXOR.
 * @throws (rejects) UsageError if this rank's values are a disposed tensor, or dtype and op do not
 *   fit. In this case, no rank has received anything. MismatchError with the shapes of all ranks if
 *   they differ. TimeoutError, PeerGoneError.
 *
 * @example
 * ```ts
 * const mean = await allReduce(xs, group, { op: ReduceOp.AVG }); // a new tensor
 * mean.dispose();
 * ```
 */
export async function allReduce<V extends Values>(
  values: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<AllReduceOptions> = {},
): Promise<ResultOf<V>> {
  checkBoolReduction(values, options.op);
  const input = argumentPayloadOf(values, 'allReduce', group);
  return finish(group, input, group.allReduce(input.array, { ...options, ...input.options }));
}

/**
 * Does an {@link allReduce} of several tensors or arrays together, with one op per dtype. So small
 * tensors do not need a round trip each. Ranks must pass the same dtypes. Shapes are not compared,
 * only the total number of elements.
 */
export async function allReduceCoalesced<const V extends readonly Values[]>(
  list: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<AllReduceOptions> = {},
): Promise<Results<V>> {
  for (const values of list) checkBoolReduction(values, options.op);
  const inputs = list.map((values) => argumentPayloadOf(values, 'allReduceCoalesced', group));
  const arrays = inputs.map(({ array }) => array);
  return finishAll(group, inputs, group.allReduceCoalesced(arrays, { ...options, after: afterAll(inputs) }));
}

/**
 * Combines `values` over all ranks. Only rank `dst` receives the result. The other ranks resolve
 * with `null`.
 */
export async function reduce<V extends Values>(
  values: V,
  dst: number,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<ReduceOptions & RootedOptions> = {},
): Promise<ResultOf<V> | null> {
  checkBoolReduction(values, options.op);
  const input = argumentPayloadOf(values, 'reduce', group);
  const work = group.reduce(input.array, dst, { ...options, ...input.options });
  if (group.rank >= 0 && group.ranks[group.rank] === dst) return finish<V>(group, input, work);
  await work;
  return null;
}

/**
 * Resolves on every rank with rank `src`'s values. Other ranks pass values of equal shape.
 *
 * @example
 * ```ts
 * const ofRank0 = await broadcast(xs, 0, group);
 * ```
 */
export async function broadcast<V extends Values>(
  values: V,
  src: number,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<OpOptions & RootedOptions> = {},
): Promise<ResultOf<V>> {
  const input = inputOfSource(values, 'broadcast', src, group);
  return finish(group, input, group.broadcast(input.array, src, { ...options, ...input.options }));
}

/**
 * Does a {@link broadcast} of several tensors or arrays together; see {@link allReduceCoalesced}.
 */
export async function broadcastCoalesced<const V extends readonly Values[]>(
  list: V,
  src: number,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<OpOptions> = {},
): Promise<Results<V>> {
  const inputs = list.map((values) => inputOfSource(values, 'broadcastCoalesced', src, group));
  const arrays = inputs.map(({ array }) => array);
  return finishAll(group, inputs, group.broadcastCoalesced(arrays, src, { ...options, after: afterAll(inputs) }));
}

/**
 * Resolves on every rank with the values of all ranks, in rank order.
 *
 * @param options `sizes`: each rank's size of the first dimension, if the sizes differ; the same
 *   list on every rank.
 *
 * @example
 * ```ts
 * const parts = await allGather(xs, group); // one tensor of each rank
 * ```
 */
export async function allGather<V extends Values>(
  values: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<SizesOptions> = {},
): Promise<ResultOf<V>[]> {
  const input = argumentPayloadOf(values, 'allGather', group);
  const sizes = gatheredSizes(input, options.sizes, group);
  const parts = await group.allGather(input.array, { ...options, ...input.options, ...sizes.option });
  return parts.map((part, i) => input.wrap(part, sizes.rows[i]) as ResultOf<V>);
}

/**
 * Does an {@link allGather} of several tensors or arrays of one dtype together. Resolves with one
 * list per rank, in rank order.
 *
 * @throws (rejects) UsageError if the list is empty, or the values have several dtypes.
 */
export async function allGatherCoalesced<const V extends readonly Values[]>(
  list: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<OpOptions> = {},
): Promise<Results<V>[]> {
  const inputs = list.map((values) => argumentPayloadOf(values, 'allGatherCoalesced', group));
  const [first] = inputs;
  if (!first) throw new UsageError('allGatherCoalesced requires a non-empty list of tensors.');
  if (inputs.some(({ array }) => array.constructor !== first.array.constructor)) {
    throw new UsageError('allGatherCoalesced needs tensors of one dtype. Call it once per dtype.');
  }
  const starts: number[] = [];
  let size = 0;
  for (const { array } of inputs) {
    starts.push(size);
    size += array.length;
  }
  const flat = newZeros(first.array, size);
  const after = afterAll(inputs).then(() => {
    for (const [i, { array }] of inputs.entries()) (flat as Float32Array).set(array as Float32Array, starts[i]);
  });
  // A collective that is rejected early does not await this promise, whose rejection must then not
  // count as unhandled.
  after.catch(() => {});
  const all = await group.allGather(flat, { ...options, after });
  return all.map(
    (part) => inputs.map(({ array, wrap }, i) => wrap(part.slice(starts[i], starts[i]! + array.length))) as Results<V>,
  );
}

/**
 * Does the same as {@link allGather}, but only rank `dst` receives the values. The other ranks
 * resolve with `null`.
 */
export async function gather<V extends Values>(
  values: V,
  dst: number,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<SizesOptions> = {},
): Promise<ResultOf<V>[] | null> {
  const input = argumentPayloadOf(values, 'gather', group);
  const sizes = gatheredSizes(input, options.sizes, group);
  const parts = await group.gather(input.array, dst, { ...options, ...input.options, ...sizes.option });
  return parts && parts.map((part, i) => input.wrap(part, sizes.rows[i]) as ResultOf<V>);
}

/**
 * Resolves on rank r with `parts[r]` of rank `src`.
 *
 * @param like a tensor or array with the shape and dtype of each part; its values are not used.
 * @param parts on rank `src`: one part per rank. On other ranks: `null`.
 * @throws (rejects) UsageError if `src` does not pass one part per rank, if a part differs from
 *   `like` in shape or dtype, or if another rank passes parts.
 */
export async function scatter<V extends Values>(
  like: V,
  src: number,
  parts: readonly V[] | null,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<OpOptions> = {},
): Promise<ResultOf<V>> {
  const output = emptyArgumentPayloadOf(like, 'scatter', group);
  const inputs = parts?.map((part) => argumentPayloadOf(part, 'scatter', group)) ?? null;
  const odd = inputs?.findIndex(({ options: { shape } }) => String(shape) !== String(output.options.shape)) ?? -1;
  if (odd >= 0) {
    throw new UsageError(
      `parts[${odd}] has shape ${shapeOf(inputs![odd]!)}, but every rank receives shape ${shapeOf(output)}. Pass parts of one shape.`,
    );
  }
  const after = inputs ? afterAll(inputs) : undefined;
  const arrays = inputs?.map(({ array }) => array) ?? null;
  return finish(group, output, group.scatter(output.array, src, arrays, { ...options, ...output.options, after }));
}

/**
 * Combines `values` over all ranks and divides the result along the first dimension. Resolves with
 * this rank's part (torch: reduce_scatter_tensor).
 *
 * @param options `sizes`: for each rank, the size of its part in the first dimension. By default,
 *   all parts have the same size.
 * @throws (rejects) UsageError if the first dimension cannot be divided in this way. Errors of
 *   {@link allReduce}.
 */
export async function reduceScatter<V extends Values>(
  values: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<ReduceOptions & SizesOptions> = {},
): Promise<ResultOf<V>> {
  checkBoolReduction(values, options.op);
  const input = argumentPayloadOf(values, 'reduceScatter', group);
  const parts = dividedSizes(input, options.sizes, 'sizes', group);
  const sizes = inElements(parts, input);
  const part = await group.reduceScatter(input.array, { ...options, ...input.options, sizes });
  return input.wrap(part, parts[group.rank] ?? 0) as ResultOf<V>;
}

/**
 * Divides `values` along the first dimension, and sends part j to rank j. Resolves with the parts
 * from all ranks, concatenated (torch: all_to_all_single).
 *
 * @param options `inputSplits`: for each rank, the size of the part that is sent to it, in the
 *   first dimension. `outputSplits`: for each rank, the size of the part that is received from it.
 *   By default, all parts have the same size.
 */
export async function allToAll<V extends Values>(
  values: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<AllToAllOptions> = {},
): Promise<ResultOf<V>> {
  const input = argumentPayloadOf(values, 'allToAll', group);
  const inputRows = dividedSizes(input, options.inputSplits, 'inputSplits', group);
  const outputRows = options.outputSplits ?? inputRows;
  const received = await group.allToAll(input.array, {
    ...options,
    ...input.options,
    inputSplits: inElements(inputRows, input),
    outputSplits: inElements(outputRows, input),
  });
  return input.wrap(received, sumOf(outputRows)) as ResultOf<V>;
}

function shapeOf({ options, rows }: ArgumentPayload): string {
  return `[${(options.shape ?? [rows]).join(', ')}]`;
}

/**
 * Returns the payload for a collective that sends only the values of rank `src`. On other ranks,
 * the values are not read.
 */
function inputOfSource(values: Values, call: string, src: number, group: ProcessGroup): ArgumentPayload {
  const isRead = group.rank < 0 || group.ranks[group.rank] === src;
  return isRead ? argumentPayloadOf(values, call, group) : emptyArgumentPayloadOf(values, call, group);
}

function afterAll(inputs: readonly ArgumentPayload[]): Promise<unknown> {
  const reads = Promise.all(inputs.flatMap(({ options }) => options.after ?? []));
  // A collective that is rejected early does not await this promise, whose rejection must then not
  // count as unhandled.
  reads.catch(() => {});
  return reads;
}

async function finish<V extends Values>(
  group: ProcessGroup,
  input: ArgumentPayload,
  work: PromiseLike<TypedArray>,
): Promise<ResultOf<V>> {
  const array = await work;
  // On a rank that is not a member, the group's op does not wait until the values are read.
  if (group.rank < 0) await input.options.after;
  return input.wrap(array) as ResultOf<V>;
}

async function finishAll<V extends readonly Values[]>(
  group: ProcessGroup,
  inputs: readonly ArgumentPayload[],
  work: PromiseLike<readonly TypedArray[]>,
): Promise<Results<V>> {
  const arrays = await work;
  if (group.rank < 0) await afterAll(inputs);
  return inputs.map(({ wrap }, i) => wrap(arrays[i]!)) as Results<V>;
}

/**
 * Returns the size of each gathered part in the first dimension, and the option `sizes` for the
 * group's op, in elements.
 */
function gatheredSizes(
  input: ArgumentPayload,
  sizes: readonly number[] | undefined,
  { rank, ranks }: ProcessGroup,
): { rows: readonly number[]; option: Pick<SizesOptions, 'sizes'> } {
  if (sizes === undefined) return { rows: ranks.map(() => input.rows), option: {} };
  if (rank >= 0 && sizes.length === ranks.length && sizes[rank] !== input.rows) {
    throw new UsageError(
      `sizes[${rank}] is ${sizes[rank]}, but the first dimension of rank ${ranks[rank]}'s values is ${input.rows}.`,
    );
  }
  return { rows: sizes, option: { sizes: inElements(sizes, input) } };
}

/** Returns the size, in the first dimension, of each part that the values are divided into. */
function dividedSizes(
  { rows, options }: ArgumentPayload,
  sizes: readonly number[] | undefined,
  name: string,
  { worldSize, ranks }: ProcessGroup,
): readonly number[] {
  const isScalar = options.shape?.length === 0;
  if (sizes === undefined && rows % worldSize === 0 && !isScalar) return ranks.map(() => rows / worldSize);
  if (sizes === undefined || isScalar) {
    const what = isScalar ? 'A scalar' : `A first dimension of ${rows}`;
    throw new UsageError(`${what} cannot be divided into ${worldSize} equal parts. Pass ${name}.`);
  }
  if (sizes.length === worldSize && sumOf(sizes) !== rows) {
    throw new UsageError(`${name} add up to ${sumOf(sizes)}, but the first dimension is ${rows}.`);
  }
  return sizes;
}

function inElements(rows: readonly number[], { rowSize }: ArgumentPayload): number[] {
  return rows.map((count) => count * rowSize);
}

function sumOf(sizes: readonly number[]): number {
  return sizes.reduce((sum, size) => sum + size, 0);
}
