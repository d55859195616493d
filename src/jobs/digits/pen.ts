/**
 * Draws lines on a small grey raster. It uses only `+ - * /`, `Math.sqrt`, comparisons and float32
 * rounding on store, so a drawing has the same bits on every machine.
 */

/**
 * Number of line segments that replace the curve between two points. For a digit of usual size,
 * they deviate from the curve by less than a tenth of a pixel.
 */
const LINES_PER_SPAN = 5;

/**
 * Returns the smooth curve through `points` (x, y, x, y, ...) as a polyline, in the same layout.
 * The curve is a uniform Catmull-Rom spline. A point that occurs twice in a row is a corner.
 */
export function smoothLine(points: ArrayLike<number>): number[] {
  const last = points.length / 2 - 1;
  const out = [points[0]!, points[1]!];
  for (let k = 0; k < last; k++) {
    const x1 = points[2 * k]!;
    const y1 = points[2 * k + 1]!;
    const x2 = points[2 * k + 2]!;
    const y2 = points[2 * k + 3]!;
    if (x1 === x2 && y1 === y2) continue;
    const before = 2 * Math.max(k - 1, 0);
    const after = 2 * Math.min(k + 2, last);
    const dx1 = (x2 - points[before]!) / 2;
    const dy1 = (y2 - points[before + 1]!) / 2;
    const dx2 = (points[after]! - x1) / 2;
    const dy2 = (points[after + 1]! - y1) / 2;
    for (let line = 1; line <= LINES_PER_SPAN; line++) {
      const t = line / LINES_PER_SPAN;
      const s = 1 - t;
      // Hermite basis functions.
      const h1 = (1 + 2 * t) * s * s;
      const g1 = t * s * s;
      const h2 = t * t * (3 - 2 * t);
      const g2 = -t * t * s;
      out.push(h1 * x1 + g1 * dx1 + h2 * x2 + g2 * dx2, h1 * y1 + g1 * dy1 + h2 * y2 + g2 * dy2);
    }
  }
  return out;
}

/**
 * A square raster of floats; 0 means no ink. The centre of pixel (x, y) is at (x + 0.5, y + 0.5).
 */
export class InkRaster {
  readonly side: number;
  /**
   * Distance of each pixel's centre from the edge of the ink, in pixels. It is negative outside the
   * ink.
   */
  readonly #depth: Float64Array;

  constructor(side: number) {
    this.side = side;
    this.#depth = new Float64Array(side * side);
    this.clear();
  }

  clear(): void {
    this.#depth.fill(-1);
  }

  /**
   * Draws a polyline (x, y, x, y, ... in pixels) with a round pen whose radius changes from
   * `radius0` to `radius1` pixels. Overlapping lines are no darker than one line.
   */
  draw(line: ArrayLike<number>, radius0: number, radius1: number): void {
    const segments = line.length / 2 - 1;
    for (let k = 0; k < segments; k++) {
      const radius = radius0 + ((radius1 - radius0) * (k + 0.5)) / segments;
      this.#segment(line[2 * k]!, line[2 * k + 1]!, line[2 * k + 2]!, line[2 * k + 3]!, radius);
    }
  }

  #segment(x1: number, y1: number, x2: number, y2: number, radius: number): void {
    const { side } = this;
    const depth = this.#depth;
    const dx = x2 - x1;
    const dy = y2 - y1;
    const length2 = dx * dx + dy * dy;
    const scale = length2 > 0 ? 1 / length2 : 0;
    const reach = radius + 0.5;
    const left = Math.max(0, Math.floor(Math.min(x1, x2) - reach));
    const right = Math.min(side - 1, Math.floor(Math.max(x1, x2) + reach));
    const top = Math.max(0, Math.floor(Math.min(y1, y2) - reach));
    const bottom = Math.min(side - 1, Math.floor(Math.max(y1, y2) + reach));
    for (let py = top; py <= bottom; py++) {
      const ey = py + 0.5 - y1;
      for (let px = left; px <= right; px++) {
        const ex = px + 0.5 - x1;
        const along = Math.min(1, Math.max(0, (ex * dx + ey * dy) * scale));
        const ox = ex - along * dx;
        const oy = ey - along * dy;
        const d = radius - Math.sqrt(ox * ox + oy * oy);
        const at = py * side + px;
        if (d > depth[at]!) depth[at] = d;
      }
    }
  }

  /**
   * Returns the amount of ink of a pixel: 1 if its centre is at least half a pixel inside a line, 0
   * if at least half a pixel outside, and linear between.
   */
  coverage(pixel: number): number {
    return Math.min(1, Math.max(0, this.#depth[pixel]! + 0.5));
  }
}
