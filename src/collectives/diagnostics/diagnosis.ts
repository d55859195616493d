/**
 * Diagnoses a failed collective from the reports of all ranks: which ranks have not called the
 * collective, and what the other ranks have called. The functions are pure.
 */
import * as v from 'valibot';
import { nameRanks, capitalizeFirst } from '../../util/text.ts';

/** One rank's report on one collective. */
export const HangReport = v.strictObject({
  /**
   * The collective as this rank called it; `null` if this rank has not called it, or no longer has
   * a record of it.
   */
  call: v.nullable(v.string()),
  /** Progress of the collective; `null` if this rank has not called it. */
  state: v.nullable(v.picklist(['scheduled', 'started', 'completed', 'failed'])),
  /** The latest collective that this rank has called; `null` if it has called none. */
  last: v.nullable(v.strictObject({ seq: v.number(), call: v.string(), state: v.string() })),
  /**
   * Milliseconds since this rank last moved bytes of the collective, or of earlier ops. Earlier ops
   * are those that this rank called before the asking rank called the collective.
   */
  idleMs: v.number(),
});
export type HangReport = v.InferOutput<typeof HangReport>;

interface Diagnosis {
  /** Ranks that did not answer or have not called the collective, ascending. */
  missing: number[];
  /** Sentences. */
  text: string;
}

function put(map: Map<string, number[]>, key: string, rank: number): void {
  map.set(key, [...(map.get(key) ?? []), rank]);
}

/**
 * Returns the diagnosis.
 *
 * @param reports by global rank, in ascending order; `null` if a rank did not answer.
 */
export function diagnoseHang(reports: ReadonlyMap<number, HangReport | null>): Diagnosis {
  const silent: number[] = [];
  const through: number[] = [];
  const late = new Map<string, number[]>();
  const called = new Map<string, number[]>();
  for (const [rank, report] of reports) {
    if (report === null) silent.push(rank);
    else if (report.call !== null) put(called, `${report.call}${stateWords(report.state)}`, rank);
    else if (report.state === 'completed') through.push(rank);
    else
      put(late, report.last === null ? 'none' : `#${report.last.seq} ${report.last.call}, ${report.last.state}`, rank);
  }
  const sentences: string[] = [];
  for (const [last, ranks] of late) {
    const before = last === 'none' ? 'no collective at all' : `nothing after ${last}`;
    sentences.push(`${capitalizeFirst(nameRanks(ranks))} ${ranks.length === 1 ? 'has' : 'have'} called ${before}.`);
  }
  if (silent.length > 0) sentences.push(`${capitalizeFirst(nameRanks(silent))} did not answer.`);
  if (through.length > 0) {
    sentences.push(
      `${capitalizeFirst(nameRanks(through))} ${through.length === 1 ? 'has' : 'have'} completed the collective.`,
    );
  }
  for (const [call, ranks] of called) sentences.push(`${capitalizeFirst(nameRanks(ranks))} called ${call}.`);
  const missing = [...silent, ...[...late.values()].flat()].toSorted((a, b) => a - b);
  return { missing, text: sentences.join(' ') };
}

function stateWords(state: HangReport['state']): string {
  if (state === 'completed') return ' and completed it';
  return state === 'scheduled' ? ' and did not start it yet, because earlier collectives are still in flight' : '';
}
