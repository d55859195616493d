/** What `bench link` finds; pure. */
import { median } from '../../src/util/statistics.ts';
import { table } from '../table.ts';
import type { LinkFigures } from './measureLink.ts';

export type LinkKind = 'bareLink' | 'pageLink' | 'workerLink' | 'portLink';
export type LinkTurns = Record<LinkKind, LinkFigures[]>;

export interface LinkRow extends LinkFigures {
  kind: LinkKind;
  /** Times as much as the bare channel carries. */
  ratio: number;
}

export interface LinkResult {
  rows: LinkRow[];
}

const NAMES: Record<LinkKind, string> = {
  bareLink: 'bare data channel, on the page',
  pageLink: 'simple-peer link, on the page',
  workerLink: 'the same in the worker',
  portLink: 'message port, from worker to worker',
};

/** Medians of all turns. */
export function summaryOf(turns: LinkTurns): LinkResult {
  const kinds = Object.keys(NAMES) as LinkKind[];
  const bare = median(turns.bareLink.map(({ MBps }) => MBps));
  const rows = kinds.map((kind) => {
    const MBps = median(turns[kind].map((turn) => turn.MBps));
    return { kind, MBps, ratio: MBps / bare, roundTripMs: median(turns[kind].map((turn) => turn.roundTripMs)) };
  });
  return { rows };
}

export function tableOf({ rows }: LinkResult): string {
  return table(
    ['link', 'MB/s', 'of bare', 'there and back, ms'],
    rows.map(({ kind, MBps, ratio, roundTripMs }) => [
      ...[NAMES[kind], MBps.toFixed(1), ratio.toFixed(2), roundTripMs.toFixed(2)],
    ]),
  );
}
