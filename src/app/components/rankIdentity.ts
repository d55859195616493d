/**
 * The marks of ranks. A mark has a shape, and a colour of the Okabe-Ito palette, which colour-blind
 * people can distinguish. There are eight shapes and eight colours. Marks 8 to 15 are outlines.
 * From 16 on, the marks repeat. A member keeps its mark when its rank changes.
 */
import { markNumberOfRank } from '../people.ts';

export const RANK_SHAPES = ['circle', 'square', 'triangle', 'diamond', 'pentagon', 'hexagon', 'star', 'cross'] as const;
type Shape = (typeof RANK_SHAPES)[number];

interface RankIdentity {
  shape: Shape;
  /**
   * Index of the colour, 0 to 7, for the custom properties `--rank-N` (fill) and `--on-rank-N`
   * (number on the fill).
   */
  colour: number;
  outlined: boolean;
}

export function rankIdentityOf(rank: number): RankIdentity {
  const mark = markNumberOfRank(rank);
  const colour = mark % RANK_SHAPES.length;
  return { shape: RANK_SHAPES[colour]!, colour, outlined: Math.floor(mark / RANK_SHAPES.length) % 2 === 1 };
}

/**
 * Returns an SVG path around 0,0. All shapes have about the same area. `r` is the radius of the
 * circle.
 */
export function rankShapePath(shape: Shape, r: number): string {
  switch (shape) {
    case 'circle':
      return `M${-r},0a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`;
    case 'square':
      return polygon(4, r * 1.2, 45);
    case 'triangle':
      return polygon(3, r * 1.42, -90, 0.14 * r);
    case 'diamond':
      return polygon(4, r * 1.24, -90);
    case 'pentagon':
      return polygon(5, r * 1.13, -90);
    case 'hexagon':
      return polygon(6, r * 1.08, 0);
    case 'star':
      return star(5, r * 1.32, r * 0.74);
    case 'cross':
      return cross(r * 1.12, r * 0.52);
    default:
      return shape satisfies never;
  }
}

function polygon(sides: number, r: number, startDegrees: number, shiftY = 0): string {
  const points = Array.from({ length: sides }, (_, i) => point(r, startDegrees + (360 * i) / sides, shiftY));
  return `M${points.join('L')}Z`;
}

function star(arms: number, outer: number, inner: number): string {
  const points = Array.from({ length: arms * 2 }, (_, i) =>
    point(i % 2 === 0 ? outer : inner, -90 + (180 * i) / arms, 0),
  );
  return `M${points.join('L')}Z`;
}

function cross(r: number, half: number): string {
  const h = half.toFixed(2);
  const R = r.toFixed(2);
  return `M-${h},-${R}H${h}V-${h}H${R}V${h}H${h}V${R}H-${h}V${h}H-${R}V-${h}H-${h}Z`;
}

function point(r: number, degrees: number, shiftY: number): string {
  const angle = (degrees * Math.PI) / 180;
  return `${(r * Math.cos(angle)).toFixed(2)},${(r * Math.sin(angle) + shiftY).toFixed(2)}`;
}
