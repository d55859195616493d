/**
 * Chooses how threads share the work of a matrix product. The lengths of the matrices alone decide
 * in which order products are added, so that all devices compute the same bits. The device decides
 * whether the threads of a workgroup share what they read.
 */

/**
 * The part of the result that a workgroup computes. Each thread computes `threadRows` x 4 elements.
 * In each iteration, the workgroup loads `outer` x `inner` elements of both matrices.
 */
export interface MatMulTile {
  /** Number of rows of the tile, and also of its columns. */
  outer: number;
  inner: number;
  threadRows: 4 | 8;
  threads: number;
}

/**
 * The tiles for 32-bit floats of llama.cpp's Vulkan backend (ggml-vulkan.cpp, `m_warptile` and
 * `s_warptile` without cooperative matrices): 64 x 64 x 16 with 128 threads of 8 x 4 elements, and
 * 32 x 32 x 16. They run on GPUs of NVIDIA, AMD, Intel and Apple. The larger tile loads half as
 * much from memory per multiplication; the smaller tile gives four times as many workgroups.
 */
export const LARGE_MATMUL_TILE: MatMulTile = { outer: 64, inner: 16, threadRows: 8, threads: 128 };
export const SMALL_MATMUL_TILE: MatMulTile = { outer: 32, inner: 16, threadRows: 4, threads: 64 };

/** Number of workgroups that keep most GPUs busy. */
const BUSY = 64;
/**
 * Shortest part of the inner length. With shorter parts, the dispatch that sums the parts would
 * take as long as the split saves.
 */
const SHORTEST_PART = 512;
const MOST_PARTS = 16;

export interface MatMulLengths {
  batches: number;
  rows: number;
  columns: number;
  inner: number;
}

export interface MatMulPlan {
  /** `null`: threads share nothing; see `direct.ts`. */
  tile: MatMulTile | null;
  /**
   * Number of parts of the inner length that are computed by different workgroups (split-K). A
   * second dispatch sums them in a fixed order. The gradient of a layer's weights has a long inner
   * length (all positions of a batch) and often few elements.
   */
  parts: number;
  /** Inner length of a part, a multiple of 16. */
  partLength: number;
}

/**
 * @param isDirect whether threads read their elements directly. It changes no bits.
 */
export function matMulPlanOf({ batches, rows, columns, inner }: MatMulLengths, isDirect: boolean): MatMulPlan {
  const workgroups = ({ outer }: MatMulTile): number => batches * Math.ceil(rows / outer) * Math.ceil(columns / outer);
  const fitsLarge =
    rows > SMALL_MATMUL_TILE.outer && columns > SMALL_MATMUL_TILE.outer && workgroups(LARGE_MATMUL_TILE) >= BUSY;
  const tile = fitsLarge ? LARGE_MATMUL_TILE : SMALL_MATMUL_TILE;
  const wanted = Math.min(MOST_PARTS, Math.floor(inner / SHORTEST_PART), Math.floor(BUSY / workgroups(tile)));
  const partLength = tile.inner * Math.ceil(inner / Math.max(1, wanted) / tile.inner);
  return { tile: isDirect ? null : tile, parts: Math.ceil(inner / partLength), partLength };
}
