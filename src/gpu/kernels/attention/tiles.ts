/**
 * WGSL code for matrix products of tiles. A workgroup of 8 x 8 threads multiplies tiles of 32 rows.
 * In a product of two tiles, each thread computes 4 x 4 elements. In a product of a tile of scores
 * and another tile, each thread computes 4 rows. Rows have `depth` channels, which are loaded into
 * workgroup memory in chunks of at most 32 channels. So, for any depth, all kernels of attention
 * need less workgroup memory than WebGPU's default limit of 16 KiB. A thread's accumulators fit in
 * registers up to a depth of 128.
 *
 * In these functions, `row` is the first of the thread's 4 rows in the tile, and `column` the first
 * of its 4 columns: column, column + 8, column + 16 and column + 24. Sums over channels and over
 * keys have a fixed order.
 */

/** Rows of a tile. */
export const ATTENTION_TILE_ROWS = 32;
/** Side of the square of threads. */
const SIDE = 8;
export const ATTENTION_TILE_THREADS = SIDE * SIDE;
/** Largest number of vec4 of a row that are in workgroup memory at the same time. */
const MAX_CHUNK = 8;
/** The largest number of channels of a head. */
export const MAX_ATTENTION_HEAD_DEPTH = 128;

export interface AttentionTiles {
  /** Number of chunks of a row. */
  readonly chunks: number;
  /** Declarations that precede `main`. */
  readonly declarations: string;
}

/** @param depth a multiple of 4 */
export function attentionTilesOf(depth: number): AttentionTiles {
  const depth4 = depth / 4;
  const chunks = Math.ceil(depth4 / MAX_CHUNK);
  const chunk = Math.ceil(depth4 / chunks);
  // With an odd distance between rows, threads that read 8 rows at the same time use different
  // banks.
  const stride = chunk % 2 === 0 ? chunk + 1 : chunk;
  const declarations = `
const CHUNK = ${chunk}u;
const STRIDE = ${stride}u;
const DEPTH4 = ${depth4}u;
const SCALE = f32(${1 / Math.sqrt(depth)});
// The score of invisible keys. WGSL may assume that no value is infinite.
const LOWEST = -1e30f;
// Channels of the left tile; or scores, where an element is 4 rows of one column.
var<workgroup> left: array<vec4<f32>, ${ATTENTION_TILE_ROWS * Math.max(stride, SIDE + 1)}>;
var<workgroup> right: array<vec4<f32>, ${ATTENTION_TILE_ROWS * stride}>;
var<workgroup> partial: array<vec4<f32>, ${ATTENTION_TILE_THREADS}>;
var<workgroup> task: u32;

fn flatWorkgroup() -> u32 { return workgroupId.y * numWorkgroups.x + workgroupId.x; }

// Returns the index of this workgroup as a uniform value, so that barriers may depend on it.
fn taskIndex() -> u32 {
  if (localIndex == 0u) { task = flatWorkgroup(); }
  return workgroupUniformLoad(&task);
}

// Overwrites the left tile, so a barrier must separate it from multiplyTiles.
fn storeScores(row: u32, column: u32, s: mat4x4<f32>) {
  for (var j = 0u; j < 4u; j++) {
    left[(column + j * ${SIDE}u) * ${SIDE + 1}u + row / 4u] = s[j];
  }
}

// Combines values of the 8 threads that have the same rows.
fn rowSum(row: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
  partial[row / 4u * ${SIDE}u + column] = value;
  workgroupBarrier();
  var sum = vec4<f32>(0.0);
  for (var i = 0u; i < ${SIDE}u; i++) { sum += partial[row / 4u * ${SIDE}u + i]; }
  return sum;
}

fn rowMax(row: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
  partial[row / 4u * ${SIDE}u + column] = value;
  workgroupBarrier();
  var largest = value;
  for (var i = 0u; i < ${SIDE}u; i++) { largest = max(largest, partial[row / 4u * ${SIDE}u + i]); }
  return largest;
}

fn multiplyTiles(row: u32, column: u32, sums: mat4x4<f32>) -> mat4x4<f32> {
  var s = sums;
  for (var d = 0u; d < CHUNK; d++) {
    let rows = mat4x4<f32>(
      left[row * STRIDE + d],
      left[(row + 1u) * STRIDE + d],
      left[(row + 2u) * STRIDE + d],
      left[(row + 3u) * STRIDE + d],
    );
    s[0] += right[column * STRIDE + d] * rows;
    s[1] += right[(column + ${SIDE}u) * STRIDE + d] * rows;
    s[2] += right[(column + ${2 * SIDE}u) * STRIDE + d] * rows;
    s[3] += right[(column + ${3 * SIDE}u) * STRIDE + d] * rows;
  }
  return s;
}

// Returns 4 rows of the product of the stored scores and the right tile, for the chunk's element
// \`column\`.
fn multiplyScores(row: u32, column: u32, sums: mat4x4<f32>) -> mat4x4<f32> {
  var s = sums;
  if (column < CHUNK) {
    for (var i = 0u; i < ${ATTENTION_TILE_ROWS}u; i++) {
      let p = left[i * ${SIDE + 1}u + row / 4u];
      let v = right[i * STRIDE + column];
      s += mat4x4<f32>(v * p.x, v * p.y, v * p.z, v * p.w);
    }
  }
  return s;
}

fn visibleScores(s: vec4<f32>, queries: vec4<u32>, keys: vec4<u32>) -> vec4<f32> {
  return select(vec4<f32>(LOWEST), s * SCALE, queries >= keys);
}
`;
  return { chunks, declarations };
}

/**
 * Start of `main`. Workgroups are ordered by tile, then by sequence: a sequence is one head of one
 * sample.
 *
 * @param order WGSL expression for the index of the workgroup's tile. It may use `tiles` and `nth`.
 */
export const attentionPrologueCode = (order: string): string => `
  let context = u32(uniforms.context);
  let heads = u32(uniforms.heads);
  let sequences = u32(uniforms.batch) * heads;
  let tiles = (context + ${ATTENTION_TILE_ROWS - 1}u) / ${ATTENTION_TILE_ROWS}u;
  let index = taskIndex();
  let nth = index / sequences;
  let sequence = index % sequences;
  if (nth >= tiles) { return; }
  let tile = ${order};
  let width4 = heads * DEPTH4;
  let qkvStride = 3u * width4;
  let queriesAt = sequence / heads * context * qkvStride + sequence % heads * DEPTH4;
  let keysAt = queriesAt + width4;
  let valuesAt = keysAt + width4;
  let outputAt = sequence / heads * context * width4 + sequence % heads * DEPTH4;
  let row = localIndex / ${SIDE}u * 4u;
  let column = localIndex % ${SIDE}u;
  let ownRows = tile * ${ATTENTION_TILE_ROWS}u + row + vec4<u32>(0u, 1u, 2u, 3u);
`;

export const ATTENTION_QUERY_ROWS: TiledRows = { buffer: 'qkv', start: 'queriesAt', stride: 'qkvStride' };
export const ATTENTION_KEY_ROWS: TiledRows = { buffer: 'qkv', start: 'keysAt', stride: 'qkvStride' };
export const ATTENTION_VALUE_ROWS: TiledRows = { buffer: 'qkv', start: 'valuesAt', stride: 'qkvStride' };
/** Rows of the result's gradient. */
export const ATTENTION_GRADIENT_ROWS: TiledRows = { buffer: 'dy', start: 'outputAt', stride: 'width4' };

/** A matrix in memory whose rows are loaded or stored in tiles. All numbers count vec4. */
export interface TiledRows {
  /** WGSL name of the buffer. */
  buffer: string;
  /** Expressions: where row 0 starts, and the distance between rows. */
  start: string;
  stride: string;
}

/**
 * Returns code that loads a chunk of 32 rows into `left` or `right`. Rows after the last row are
 * copies of the last row, so their values are finite; their channels after `depth` are zeros.
 *
 * @param first expression: first row of the tile
 * @param chunk expression
 */
export function loadRowsCode(
  target: 'left' | 'right',
  { buffer, start, stride }: TiledRows,
  first: string,
  chunk: string,
): string {
  return `
  for (var i = localIndex; i < ${ATTENTION_TILE_ROWS}u * CHUNK; i += ${ATTENTION_TILE_THREADS}u) {
    let channel = ${chunk} * CHUNK + i % CHUNK;
    let at = ${start} + min(${first} + i / CHUNK, context - 1u) * ${stride} + channel;
    ${target}[i / CHUNK * STRIDE + i % CHUNK] = select(vec4<f32>(0.0), ${buffer}[at], channel < DEPTH4);
  }`;
}

/**
 * Returns code that adds the product of the rows of two matrices to `sums`: element (i, j) is the
 * dot product of row i of `rows` and row j of `columns`.
 *
 * @param rowsFirst expression: first row of the tile of `rows`
 */
export function multiplyRowsCode(
  sums: string,
  [rows, rowsFirst]: readonly [TiledRows, string],
  [columns, columnsFirst]: readonly [TiledRows, string],
  { chunks }: AttentionTiles,
): string {
  return `
  for (var chunk = 0u; chunk < ${chunks}u; chunk++) {
    workgroupBarrier();
    ${loadRowsCode('left', rows, rowsFirst, 'chunk')}
    ${loadRowsCode('right', columns, columnsFirst, 'chunk')}
    workgroupBarrier();
    ${sums} = multiplyTiles(row, column, ${sums});
  }`;
}

/**
 * Returns code that adds the product of the stored scores and a matrix to the accumulators `name0`,
 * `name1`, ..., one for each chunk.
 */
export function addProductCode(name: string, matrix: TiledRows, first: string, { chunks }: AttentionTiles): string {
  return repeatCodeForChunks(
    chunks,
    (chunk) => `
  workgroupBarrier();
  ${loadRowsCode('right', matrix, first, `${chunk}u`)}
  workgroupBarrier();
  ${name}${chunk} = multiplyScores(row, column, ${name}${chunk});`,
  );
}

/** Returns code that declares the accumulators `name0`, `name1`, ... */
export function declareSumsCode(name: string, { chunks }: AttentionTiles): string {
  return repeatCodeForChunks(chunks, (chunk) => `var ${name}${chunk} = mat4x4<f32>();\n`);
}

/**
 * Returns code that stores the accumulators, times `factor`, as the thread's rows of the result.
 *
 * @param factor WGSL expression. It may use `i`, the index among the thread's rows.
 */
export function storeRowsCode(
  name: string,
  { start, stride }: Omit<TiledRows, 'buffer'>,
  factor: string,
  { chunks }: AttentionTiles,
): string {
  return repeatCodeForChunks(
    chunks,
    (chunk) => `
  if (column < CHUNK && ${chunk}u * CHUNK + column < DEPTH4) {
    for (var i = 0u; i < 4u; i++) {
      if (ownRows[i] < context) {
        result[${start} + ownRows[i] * ${stride} + ${chunk}u * CHUNK + column] = ${name}${chunk}[i] * ${factor};
      }
    }
  }`,
  );
}

export function repeatCodeForChunks(chunks: number, code: (chunk: number) => string): string {
  return Array.from({ length: chunks }, (_, chunk) => code(chunk)).join('');
}
