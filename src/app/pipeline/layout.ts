/**
 * Computes where the ranks of pipelines are drawn, in pixels. A replica is a row of ranks. If a row
 * is too long, it continues on the next line in the opposite direction, so that neighbours in the
 * pipeline are neighbours in the picture.
 */
import type { PassKind } from '../../parallel/pipeline/schedules.ts';

export interface PipelinePoint {
  x: number;
  y: number;
}

/** The place of a rank: the centre of its mark. */
export interface PipelineRankPlace extends PipelinePoint {
  /** Rank in the world. */
  rank: number;
  replica: number;
  /** Rank in its pipeline. */
  place: number;
}

export interface PipelineDrawingLayout {
  height: number;
  /** The ranks of each replica that is drawn, in the order of their stages. */
  rows: readonly (readonly PipelineRankPlace[])[];
  /** Radius of a mark. */
  mark: number;
  /** Distance between a mark and the values above and below it. */
  lane: number;
  /** Height of the arc between the first and the last rank of a ring. */
  arc: number;
  /** Size of the box of a micro-batch. */
  box: { width: number; height: number };
  /** Whether there is room for the stages and layers of a rank below its mark. */
  labelled: boolean;
  /** Number of replicas that are not drawn. */
  more: number;
}

interface LayoutOptions {
  width: number;
  ranks: number;
  replicas: number;
  /** Whether values travel from the last rank to the first one. */
  ring: boolean;
  textSize: number;
  /** The rank whose replica is always drawn; `null` if any replica may be left out. */
  own: number | null;
}

/**
 * The largest number of replicas that are drawn. More are not needed, because all replicas do the
 * same at the same time.
 */
const MOST_REPLICAS = 3;
/**
 * The minimum width of a rank with a label, and of a rank without a label, in pixels at the usual
 * size of letters.
 */
const LABELLED_WIDTH = 100;
const LEAST_WIDTH = 46;
/** With more ranks in a replica than this, labels would fill the screen. */
const MOST_LABELLED = 12;
const LABEL_LINES = 4;

export function layoutPipeline({ width, ranks, replicas, ring, textSize, own }: LayoutOptions): PipelineDrawingLayout {
  const zoom = textSize / 13;
  const labelled = ranks <= MOST_LABELLED && width / Math.min(ranks, 3) >= LABELLED_WIDTH * zoom;
  const least = (labelled ? LABELLED_WIDTH : LEAST_WIDTH) * zoom;
  const fit = Math.min(ranks, Math.max(2, Math.floor(width / least)));
  // All lines have about the same length.
  const lines = Math.ceil(ranks / fit);
  const perLine = Math.ceil(ranks / lines);
  const mark = (labelled ? 18 : 13) * zoom;
  const box = { width: (labelled ? 28 : 24) * zoom, height: (labelled ? 20 : 17) * zoom };
  const lane = mark * 1.4 + box.height / 2 + 2 * zoom;
  // A value between the last and the first rank of a ring passes above or below the row.
  const arc = ring && lines === 1 ? 30 * zoom : 0;
  const around = lane + box.height / 2 + 4 * zoom;
  const shown = shownReplicas(replicas, own === null ? null : Math.floor(own / ranks));
  let top = 0;
  const rows = shown.map((replica) => {
    const row: PipelineRankPlace[] = [];
    // All replicas have the same stages, so the first one is labelled.
    const label = labelled && replica === shown[0] ? LABEL_LINES * textSize * 1.35 : 0;
    for (let line = 0; line < lines; line++) {
      const first = line * perLine;
      const count = Math.min(perLine, ranks - first);
      for (let i = 0; i < count; i++) {
        const column = line % 2 === 0 ? i : perLine - 1 - i;
        const x = ((column + 0.5) * width) / perLine;
        const place = first + i;
        row.push({ x, y: top + arc + around, rank: replica * ranks + place, replica, place });
      }
      top += 2 * (arc + around) + label + 10 * zoom;
    }
    return row;
  });
  return { height: Math.ceil(top), rows, mark, lane, arc, box, labelled, more: replicas - shown.length };
}

/**
 * Returns the replicas to draw: the first ones. If the replica `own` is not among them, it replaces
 * the last of them.
 */
function shownReplicas(replicas: number, own: number | null): number[] {
  const count = Math.min(replicas, MOST_REPLICAS);
  const first = Array.from({ length: count }, (_, i) => i);
  return own === null || own < count || own >= replicas ? first : [...first.slice(0, -1), own];
}

/**
 * Returns the point of a value that has travelled `share` of the way from one rank to another.
 * Activations travel above the marks, and gradients below them. On a ring, values between the last
 * and the first rank take an arc.
 */
export function pointOfTravellingValue(
  { lane, arc }: Pick<PipelineDrawingLayout, 'lane' | 'arc'>,
  kind: PassKind,
  from: Pick<PipelineRankPlace, 'x' | 'y' | 'place'>,
  to: Pick<PipelineRankPlace, 'x' | 'y' | 'place'>,
  share: number,
): PipelinePoint {
  const side = kind === 'forward' ? -1 : 1;
  const isReturning = kind === 'forward' ? to.place < from.place : to.place > from.place;
  const bend = isReturning ? arc * 4 * share * (1 - share) : 0;
  return {
    x: from.x + (to.x - from.x) * share,
    y: from.y + (to.y - from.y) * share + side * (lane + bend),
  };
}
