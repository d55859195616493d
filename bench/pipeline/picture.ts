/** Draws a step of a pipeline as SVG: the measured passes below those of the plan. */
import type { TimedPass } from '../../src/parallel/pipeline/schedules.ts';
import type { Timeline } from './idle.ts';

const WIDTH = 960;
const ROW = 26;
const LABEL = 70;
const TITLE = 30;
const AXIS = 26;
const MARGIN = 12;
/** Milliseconds between two marks of the axis. */
const MARK_MS = 2000;
const COLOURS = { forward: '#2563eb', backward: '#ea580c' } as const;

/** @param title of the picture: what was measured. */
export function timelineSvg({ plan, measured }: Timeline, title: string): string {
  const ends = [...plan, ...measured].flat().map(({ end }) => end);
  const length = Math.max(...ends);
  const xOf = (ms: number): number => LABEL + (ms / length) * (WIDTH - LABEL - MARGIN);
  const height = 2 * (TITLE + plan.length * ROW) + AXIS + TITLE;
  const second = TITLE + TITLE + plan.length * ROW;
  const marks = Array.from({ length: Math.floor(length / MARK_MS) + 1 }, (_, i) => i * MARK_MS);
  const bottom = second + measured.length * ROW;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${WIDTH}" height="${height}" fill="white"/>`,
    `<text x="${LABEL}" y="20" font-weight="bold">${title}: plan</text>`,
    ...rowsOf(plan, TITLE, xOf),
    `<text x="${LABEL}" y="${second - 10}" font-weight="bold">measured</text>`,
    ...rowsOf(measured, second, xOf),
    ...marks.map((ms) => `<text x="${xOf(ms)}" y="${bottom + 16}" text-anchor="middle">${ms / 1000} s</text>`),
    legend('forward', LABEL, bottom + AXIS),
    legend('backward', LABEL + 120, bottom + AXIS),
    '</svg>',
    '',
  ].join('\n');
}

function rowsOf(ranks: readonly (readonly TimedPass[])[], top: number, xOf: (ms: number) => number): string[] {
  return ranks.flatMap((passes, rank) => {
    const y = top + rank * ROW;
    return [
      `<text x="${LABEL - 10}" y="${y + 17}" text-anchor="end">stage ${rank}</text>`,
      ...passes.map(({ kind, microBatch, start, end }) => {
        const [from, to] = [xOf(start), xOf(end)];
        const width = (to - from).toFixed(1);
        return (
          `<rect x="${from.toFixed(1)}" y="${y}" width="${width}" height="${ROW - 3}" fill="${COLOURS[kind]}" stroke="white"/>` +
          `<text x="${((from + to) / 2).toFixed(1)}" y="${y + 16}" fill="white" text-anchor="middle">${microBatch + 1}</text>`
        );
      }),
    ];
  });
}

function legend(kind: keyof typeof COLOURS, x: number, y: number): string {
  return `<rect x="${x}" y="${y}" width="14" height="14" fill="${COLOURS[kind]}"/><text x="${x + 20}" y="${y + 12}">${kind}</text>`;
}
