/** Shapes of a two-dimensional convolution, and the WGSL code that reads its patches. */
import * as tf from '@tensorflow/tfjs';
import { elementCountOf } from '../../../util/shape.ts';
import type { BufferComponentCount, GpuProgram } from '../../program.ts';

/** Attributes of the convolution ops of TensorFlow.js. Not every op has all of them. */
export interface ConvolutionAttributes extends tf.NamedAttrMap {
  strides: [number, number] | number;
  pad: 'same' | 'valid' | number;
}

/** A tensor of images has the layout NHWC, [batch, height, width, channels]. */
export interface ConvolutionGeometry {
  readonly batch: number;
  readonly inShape: readonly [number, number, number, number];
  /** [height, width, input channels, output channels] */
  readonly filterShape: readonly [number, number, number, number];
  readonly outShape: readonly [number, number, number, number];
  readonly strides: readonly [number, number];
  /** Padding above and left of the image. */
  readonly padding: readonly [number, number];
}

/**
 * Returns `null` for layouts other than NHWC, dilated convolutions and results without elements.
 */
export function convolutionGeometryOf(
  inShape: readonly number[],
  filterShape: readonly number[],
  attrs: tf.NamedAttrMap,
): ConvolutionGeometry | null {
  const { strides, pad } = attrs as ConvolutionAttributes;
  const dilations = (attrs['dilations'] ?? 1) as number | [number, number];
  if ((attrs['dataFormat'] ?? 'NHWC') !== 'NHWC' || [dilations].flat().some((dilation) => dilation !== 1)) return null;
  const info = tf.backend_util.computeConv2DInfo(
    inShape as [number, number, number, number],
    filterShape as [number, number, number, number],
    strides,
    1,
    pad,
    attrs['dimRoundingMode'] as 'floor' | 'round' | 'ceil' | undefined,
  );
  if (elementCountOf(info.outShape) === 0 || elementCountOf(info.inShape) === 0) return null;
  return {
    batch: info.batchSize,
    inShape: info.inShape,
    filterShape: info.filterShape,
    outShape: info.outShape,
    strides: [info.strideHeight, info.strideWidth],
    padding: [info.padInfo.top, info.padInfo.left],
  };
}

/** Uniforms of all kernels of this folder. */
export function convolutionUniformsOf(
  geometry: ConvolutionGeometry,
  more: Record<string, number> = {},
): NonNullable<GpuProgram['uniforms']> {
  const { batch, inShape, filterShape, outShape, strides, padding } = geometry;
  const values = {
    images: batch,
    inHeight: inShape[1],
    inWidth: inShape[2],
    inChannels: inShape[3],
    filterHeight: filterShape[0],
    filterWidth: filterShape[1],
    outHeight: outShape[1],
    outWidth: outShape[2],
    outChannels: outShape[3],
    strideHeight: strides[0],
    strideWidth: strides[1],
    padTop: padding[0],
    padLeft: padding[1],
    ...more,
  };
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { type: 'i32' as const, value }]));
}

/** Number of patches, which is the number of output positions in all images. */
export function convolutionPatchCountOf({ outShape: [batch, height, width] }: ConvolutionGeometry): number {
  return batch * height * width;
}

/** Number of elements of a patch. */
export function convolutionPatchSizeOf({ filterShape: [height, width, channels] }: ConvolutionGeometry): number {
  return height * width * channels;
}

/**
 * Returns the columns of a tile: the smallest of 8, 16 and 32 that is at least `columns`, otherwise
 * 64.
 */
export function convolutionTileColumnsFor(columns: number): number {
  return [8, 16, 32].find((tile) => columns <= tile) ?? 64;
}

/**
 * WGSL functions that read the patches of the images `x` in place (implicit im2col), instead of
 * copying them to a matrix of [positions, patch size].
 *
 * A row of a patch has filterWidth * inChannels consecutive elements in the layout NHWC, so an
 * element of a patch is given by its row and its offset in the row.
 *
 * @param components number of components of an element of `x`
 */
export function imagePatchCode(components: BufferComponentCount): string {
  return `
/** Row of images in x; row and offset of the patch's first element in the image. */
fn originOf(position: i32) -> vec3<i32> {
  let image = position / (uniforms.outHeight * uniforms.outWidth);
  let row = position / uniforms.outWidth % uniforms.outHeight;
  let column = position % uniforms.outWidth;
  // A row far above the image makes all elements zeros.
  if (image >= uniforms.images) { return vec3<i32>(0, -0x40000000, 0); }
  return vec3<i32>(
    image * uniforms.inHeight,
    row * uniforms.strideHeight - uniforms.padTop,
    (column * uniforms.strideWidth - uniforms.padLeft) * uniforms.inChannels);
}

struct PatchIndex { rows: vec4<i32>, offsets: vec4<i32> }

/** Indices of four elements of a patch, beginning with element k. */
fn patchIndex(k: i32) -> PatchIndex {
  let elements = k + vec4<i32>(0, 1, 2, 3);
  let rowLength = uniforms.filterWidth * uniforms.inChannels;
  let rows = elements / rowLength;
  return PatchIndex(rows, elements - rows * rowLength);
}

fn indexInX(origin: vec3<i32>, patchRow: i32, offset: i32) -> i32 {
  let rowLength = uniforms.inWidth * uniforms.inChannels;
  let row = origin.y + patchRow;
  let at = origin.z + offset;
  let isInside = patchRow < uniforms.filterHeight && row >= 0 && row < uniforms.inHeight && at >= 0 && at < rowLength;
  return select(-1, (origin.x + row) * rowLength + at, isInside);
}
${components === 4 ? PATCH_OF_VECTORS : PATCH_OF_SCALARS}`;
}

const PATCH_OF_VECTORS = `
fn readPatch(origin: vec3<i32>, index: PatchIndex) -> vec4<f32> {
  let at = indexInX(origin, index.rows.x, index.offsets.x);
  if (at < 0) { return vec4<f32>(0.0); }
  return x[at / 4];
}
`;

const PATCH_OF_SCALARS = `
fn element(origin: vec3<i32>, row: i32, offset: i32) -> f32 {
  let at = indexInX(origin, row, offset);
  if (at < 0) { return 0.0; }
  return x[at];
}

fn readPatch(origin: vec3<i32>, index: PatchIndex) -> vec4<f32> {
  return vec4<f32>(
    element(origin, index.rows.x, index.offsets.x),
    element(origin, index.rows.y, index.offsets.y),
    element(origin, index.rows.z, index.offsets.z),
    element(origin, index.rows.w, index.offsets.w));
}
`;

/**
 * WGSL function `name` that reads four output channels from a row of `input`, a matrix [rows,
 * output channels]. Channels after the last are zeros.
 *
 * @param components number of components of an element of `input` and `mask`
 * @param mask the result of ReLU, a matrix like `input`. Where it is not positive, the function
 *   returns 0, the derivative of ReLU.
 */
export function channelReaderCode(
  name: string,
  input: string,
  components: BufferComponentCount,
  mask: string | null = null,
): string {
  const zero = components === 4 ? 'vec4<f32>(0.0)' : '0.0';
  const element = (at: string): string =>
    mask === null ? `${input}[${at}]` : `select(${zero}, ${input}[${at}], ${mask}[${at}] > ${zero})`;
  const scalars = [0, 1, 2, 3].map(
    (i) => `if (channel + ${i} < uniforms.outChannels) { value[${i}] = ${element(`at + ${i}`)}; }`,
  );
  return `
fn ${name}(row: i32, channel: i32) -> vec4<f32> {
  var value = vec4<f32>(0.0);
  let at = row * uniforms.outChannels + channel;
  ${components === 4 ? `if (channel < uniforms.outChannels) { value = ${element('at / 4')}; }` : scalars.join('\n  ')}
  return value;
}
`;
}
