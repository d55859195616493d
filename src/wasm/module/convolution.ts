/**
 * Gradients of two-dimensional convolutions of pictures [batch, height, width, channels]. The
 * elements under each window of a picture are gathered into a row, so that one product computes the
 * sums over all windows (Chellapilla et al., "High Performance Convolutional Neural Networks for
 * Document Processing", 2006). Windows are taken in groups, whose rows stay in the cache unless
 * a line of windows is long.
 */
import { multiply } from './product';

/** Windows of a group, unless one line of windows has more. */
const GROUP: i32 = 256;

function linesOf(outHeight: i32, outWidth: i32): i32 {
  return max(1, min(outHeight, GROUP / max(1, outWidth)));
}

/** Bytes of `rows` in {@link convolutionGradient}. */
export function windowBytes(outHeight: i32, outWidth: i32, taps: i32): i32 {
  return 4 * linesOf(outHeight, outWidth) * outWidth * taps;
}

/**
 * For `lines` lines of windows from line `first` on, copies the elements under each window of a
 * picture to a row, or adds each row to the elements under its window. Elements outside of the
 * picture are 0.
 */
function moveWindows(
  isAdded: bool,
  rows: usize,
  picture: usize,
  first: i32,
  lines: i32,
  height: i32,
  width: i32,
  channels: i32,
  outWidth: i32,
  windowHeight: i32,
  windowWidth: i32,
  strideHeight: i32,
  strideWidth: i32,
  top: i32,
  left: i32,
): void {
  const run = windowWidth * channels;
  for (let line = first; line < first + lines; line++) {
    for (let column = 0; column < outWidth; column++) {
      const x = column * strideWidth - left;
      const start = max(0, -x) * channels;
      const end = min(windowWidth, width - x) * channels;
      for (let tap = 0; tap < windowHeight; tap++) {
        const y = line * strideHeight + tap - top;
        const isInside = y >= 0 && y < height && start < end;
        const from = picture + 4 * ((y * width + x) * channels);
        if (isAdded) {
          if (isInside) addFloats(from + 4 * start, rows + 4 * start, end - start);
        } else if (isInside) {
          fillZeros(rows, start);
          copyFloats(rows + 4 * start, from + 4 * start, end - start);
          fillZeros(rows + 4 * end, run - end);
        } else fillZeros(rows, run);
        rows += 4 * run;
      }
    }
  }
}

function fillZeros(to: usize, count: i32): void {
  for (let i = 0; i < count; i++) store<f32>(to + 4 * i, 0);
}

function copyFloats(to: usize, from: usize, count: i32): void {
  const vectors = count & ~3;
  for (let i = 0; i < vectors; i += 4) v128.store(to + 4 * i, v128.load(from + 4 * i));
  for (let i = vectors; i < count; i++) store<f32>(to + 4 * i, load<f32>(from + 4 * i));
}

function addFloats(to: usize, from: usize, count: i32): void {
  const vectors = count & ~3;
  for (let i = 0; i < vectors; i += 4) {
    const at = to + 4 * i;
    v128.store(at, f32x4.add(v128.load(at), v128.load(from + 4 * i)));
  }
  for (let i = vectors; i < count; i++) store<f32>(to + 4 * i, load<f32>(to + 4 * i) + load<f32>(from + 4 * i));
}

/**
 * Computes the gradient of `filter` [windowHeight, windowWidth, channels, outChannels] from
 * `pictures`, or else the gradient of `pictures` from `filter`.
 *
 * @param dy gradient of the result, [batch, outHeight, outWidth, outChannels].
 * @param rows memory of {@link windowBytes} bytes.
 */
export function convolutionGradient(
  ofFilter: bool,
  pictures: usize,
  filter: usize,
  dy: usize,
  rows: usize,
  batch: i32,
  height: i32,
  width: i32,
  channels: i32,
  outHeight: i32,
  outWidth: i32,
  outChannels: i32,
  windowHeight: i32,
  windowWidth: i32,
  strideHeight: i32,
  strideWidth: i32,
  top: i32,
  left: i32,
  scratch: usize,
): void {
  const taps = windowHeight * windowWidth * channels;
  const pictureBytes = 4 * height * width * channels;
  const step = 4 * outChannels;
  const group = linesOf(outHeight, outWidth);
  if (ofFilter) memory.fill(filter, 0, step * taps);
  else memory.fill(pictures, 0, batch * pictureBytes);
  for (let sample = 0; sample < batch; sample++) {
    for (let first = 0; first < outHeight; first += group) {
      const lines = min(group, outHeight - first);
      const windows = lines * outWidth;
      if (!ofFilter) {
        multiply(rows, 4 * taps, dy, step, 4, filter, 4, step, windows, taps, outChannels, false, scratch);
      }
      moveWindows(
        !ofFilter,
        rows,
        pictures,
        first,
        lines,
        height,
        width,
        channels,
        outWidth,
        windowHeight,
        windowWidth,
        strideHeight,
        strideWidth,
        top,
        left,
      );
      if (ofFilter) multiply(filter, step, rows, 4, 4 * taps, dy, step, 4, taps, outChannels, windows, true, scratch);
      dy += step * windows;
    }
    pictures += pictureBytes;
  }
}
