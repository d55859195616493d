/** Where things are on the ring, in pixels. */

export interface RingLayout {
  width: number;
  height: number;
  cx: number;
  cy: number;
  /** Radius of the ring itself. */
  radius: number;
  /** Radius of a rank's mark. */
  mark: number;
  /** Whether names fit beside the marks. */
  named: boolean;
}

/** Rank 0 on top, then clockwise: to the right neighbour is to the right. */
export function angleOf(rank: number, n: number): number {
  return -Math.PI / 2 + (2 * Math.PI * rank) / n;
}

export function layoutRing(width: number, height: number, n: number, textSize: number, named: boolean): RingLayout {
  const mark = n <= 6 ? 20 : n <= 12 ? 16 : n <= 16 ? 12 : n <= 32 ? 6 : 4;
  const fits = named && n <= 12;
  // A name stands above, below or beside its mark: it needs a line's height there and a word's width here.
  const roomY = mark * 1.4 + (fits ? textSize * 2.7 : textSize * 1.6);
  const roomX = mark * 1.4 + (fits ? textSize * (n === 2 ? 2 : 6.5) : textSize * 1.6);
  const radius = Math.max(24, Math.min(height / 2 - roomY, width / 2 - roomX));
  return { width, height, cx: width / 2, cy: height / 2, radius, mark, named: fits };
}

export function pointAt(layout: RingLayout, angle: number, radius: number = layout.radius): { x: number; y: number } {
  return { x: layout.cx + radius * Math.cos(angle), y: layout.cy + radius * Math.sin(angle) };
}

/** The angle of something that has gone `progress` of the way from `rank` to its right neighbour, marks left free. */
export function angleAlong(layout: RingLayout, n: number, rank: number, progress: number, clearance: number): number {
  const whole = (2 * Math.PI) / n;
  const gap = Math.min((layout.mark + clearance) / layout.radius, whole * 0.4);
  return angleOf(rank, n) + gap + (whole - 2 * gap) * progress;
}

/** An arc along the ring from angle `a` to angle `b`, clockwise. */
export function arcPath(layout: RingLayout, a: number, b: number): string {
  const from = pointAt(layout, a);
  const to = pointAt(layout, b);
  const large = b - a > Math.PI ? 1 : 0;
  const r = layout.radius.toFixed(1);
  return `M${from.x.toFixed(1)},${from.y.toFixed(1)}A${r},${r} 0 ${large} 1 ${to.x.toFixed(1)},${to.y.toFixed(1)}`;
}
