/**
 * How threads divide calls of this project's functions. Each part computes different elements of
 * the result, and each element adds the same numbers in the same order. So the bits do not depend
 * on the number of parts.
 */

/** A part of a call. */
export interface CallPart {
  /** The first unit of the part, and the one after its last. */
  from: number;
  to: number;
  /**
   * Index of the thread. A thread's own memory is behind that of the threads with lower indices.
   */
  thread: number;
  sizes: ThreadMemorySizes;
}

/** Bytes of the memory that a thread writes and that nobody reads later. */
export interface ThreadMemorySizes {
  scratchBytes: number;
  attentionBytes: (context: number) => number;
  windowBytes: (outHeight: number, outWidth: number, taps: number) => number;
}

export interface CallDivision {
  /** Number of units of a call. Each part of the call has whole units. */
  units: (args: readonly number[]) => number;
  /** Multiplications of a call, approximately. */
  work: (args: readonly number[]) => number;
  /** Returns the arguments with which a thread computes a part of the units. */
  part: (args: readonly number[], part: CallPart) => number[];
}

type Values = readonly number[];

/** Names of functions that can be divided; `module/index.ts` describes them and their arguments. */
export type DividedFunctionName = 'adam' | 'attention' | 'attentionGradient' | 'convolutionGradient' | 'multiply';

/** Rows and columns of the tile of a product: parts are multiples of it. */
const TILE = { rows: 4, columns: 8 } as const;
const FLOAT_BYTES = 4;

type Product = [
  ...[c: number, cStep: number, a: number, aRowStep: number, aStep: number],
  ...[b: number, bRowStep: number, bColumnStep: number],
  ...[rows: number, columns: number, depth: number, isAdded: number, scratch: number],
];

/** The longer axis of the result is divided. Divided columns are packed only once. */
const multiply: CallDivision = {
  units: (args) => {
    const [, , , , , , , , rows, columns] = args as Product;
    return columns >= rows ? Math.ceil(columns / TILE.columns) : Math.ceil(rows / TILE.rows);
  },
  work: (args) => {
    const [, , , , , , , , rows, columns, depth] = args as Product;
    return rows * columns * depth;
  },
  part: (args, { from, to, thread, sizes }) => {
    const [c, cStep, a, aRowStep, aStep, b, bRowStep, bColumnStep, rows, columns, depth, isAdded, scratch] =
      args as Product;
    const own = scratch + thread * sizes.scratchBytes;
    if (columns >= rows) {
      const first = from * TILE.columns;
      const some = Math.min(columns, to * TILE.columns) - first;
      const matrices = [c + FLOAT_BYTES * first, cStep, a, aRowStep, aStep, b + bColumnStep * first];
      return [...matrices, bRowStep, bColumnStep, rows, some, depth, isAdded, own];
    }
    const first = from * TILE.rows;
    const some = Math.min(rows, to * TILE.rows) - first;
    const matrices = [c + cStep * first, cStep, a + aRowStep * first, aRowStep, aStep, b];
    return [...matrices, bRowStep, bColumnStep, some, columns, depth, isAdded, own];
  },
};

type AttentionSizes = [start: number, end: number, context: number, heads: number, size: number, scratch: number];

/**
 * Divides the heads of all samples.
 *
 * @param tensors number of tensors, which are the first arguments.
 * @param tiles number of tiles of probabilities that a thread needs.
 * @param products number of products of the size of the scores.
 */
function attentionDivision(tensors: number, tiles: number, products: number): CallDivision {
  const sizesOf = (args: Values): AttentionSizes => args.slice(tensors + 1) as AttentionSizes;
  return {
    units: (args) => {
      const [start, end] = sizesOf(args);
      return end - start;
    },
    work: (args) => {
      const [start, end, context, , size] = sizesOf(args);
      // Half of the keys are visible.
      return ((end - start) * products * size * context * context) / 2;
    },
    part: (args, { from, to, thread, sizes }) => {
      const [start, , context, heads, size, scratch] = sizesOf(args);
      const probabilities = args[tensors]! + thread * tiles * sizes.attentionBytes(context);
      const own = scratch + thread * sizes.scratchBytes;
      return [...args.slice(0, tensors), probabilities, start + from, start + to, context, heads, size, own];
    },
  };
}

type Convolution = [
  ...[ofFilter: number, pictures: number, filter: number, dy: number, rows: number],
  ...[batch: number, height: number, width: number, channels: number],
  ...[outHeight: number, outWidth: number, outChannels: number],
  ...[windowHeight: number, windowWidth: number, strideHeight: number, strideWidth: number],
  ...[top: number, left: number, scratch: number],
];

/** A filter's gradient sums all samples, so the lines of the filter are divided. */
const convolutionGradient: CallDivision = {
  units: (args) => {
    const [ofFilter, , , , , batch, , , , , , , windowHeight] = args as Convolution;
    return ofFilter === 1 ? windowHeight : batch;
  },
  work: (args) => {
    const [, , , , , batch, , , channels, outHeight, outWidth, outChannels, windowHeight, windowWidth] =
      args as Convolution;
    return batch * outHeight * outWidth * outChannels * windowHeight * windowWidth * channels;
  },
  part: (args, { from, to, thread, sizes }) => {
    const [ofFilter, pictures, filter, dy, rows, batch, height, width, channels, ...others] = args as Convolution;
    const [outHeight, outWidth, outChannels, windowHeight, windowWidth, strideHeight, strideWidth, top, left, scratch] =
      others;
    const line = windowWidth * channels;
    const ownRows = rows + thread * sizes.windowBytes(outHeight, outWidth, windowHeight * line);
    const ownScratch = scratch + thread * sizes.scratchBytes;
    if (ofFilter === 1) {
      const part = filter + FLOAT_BYTES * from * line * outChannels;
      return [
        ...[1, pictures, part, dy, ownRows, batch, height, width, channels, outHeight, outWidth, outChannels],
        ...[to - from, windowWidth, strideHeight, strideWidth, top - from, left, ownScratch],
      ];
    }
    const part = pictures + FLOAT_BYTES * from * height * width * channels;
    const dyPart = dy + FLOAT_BYTES * from * outHeight * outWidth * outChannels;
    return [
      ...[0, part, filter, dyPart, ownRows, to - from, height, width, channels, outHeight, outWidth, outChannels],
      ...[windowHeight, windowWidth, strideHeight, strideWidth, top, left, ownScratch],
    ];
  },
};

/** Elements that one instruction updates. */
const LANES = 4;
/** An update of an element takes as long as this many multiplications of a product. */
const ADAM_WORK = 32;

/** The update of a part of the parameters; see `optim/module`. */
const adam: CallDivision = {
  units: (args) => Math.ceil(args[4]! / LANES),
  work: (args) => ADAM_WORK * args[4]!,
  part: (args, { from, to }) => {
    const [count, ...coefficients] = args.slice(4);
    const arrays = args.slice(0, 4).map((address) => address + FLOAT_BYTES * LANES * from);
    return [...arrays, Math.min(count!, LANES * to) - LANES * from, ...coefficients];
  },
};

export const CALL_DIVISIONS: Readonly<Record<DividedFunctionName, CallDivision>> = {
  adam,
  attention: attentionDivision(2, 1, 2),
  attentionGradient: attentionDivision(3, 2, 5),
  convolutionGradient,
  multiply,
};
