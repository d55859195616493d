/** What `bench codecs` trains, and how near each must come to fp32. Pure. */
import { mean } from './mean.ts';
import type { TrialResult } from './trial.ts';

interface Variant {
  name: string;
  /** Of the job; the others are every variant's. */
  fields: Readonly<Record<string, unknown>>;
  /**
   * Points of accuracy that the mean over all seeds may lie below that of fp32; `null`: shown only.
   */
  points: number | null;
  /** Times fewer bytes than fp32, at least. */
  fewer: number;
}

export const VARIANTS: readonly Variant[] = [
  { name: 'fp32', fields: {}, points: null, fewer: 1 },
  { name: 'fp16', fields: { codec: 'fp16' }, points: 0.3, fewer: 1.9 },
  { name: 'int8', fields: { codec: 'int8' }, points: 0.3, fewer: 3.7 },
  { name: 'int8, no feedback', fields: { codec: 'int8', errorFeedback: false }, points: null, fewer: 3.7 },
  { name: 'PowerSGD', fields: { codec: 'powersgd' }, points: 0.5, fewer: 30 },
  { name: 'DiLoCo, int8', fields: { strategy: 'diloco', codec: 'int8' }, points: 1, fewer: 50 },
];

export interface TrainedRow {
  name: string;
  /** Of one rank, framing included. */
  bytesPerStep: number;
  bytes: number;
  /** Times fewer than fp32. */
  fewer: number;
  /** Mean over the seeds, and of each. */
  accuracy: number;
  accuracies: number[];
  /** Accuracy less that of fp32, in points. */
  points: number;
  stepMs: number;
}

const accuracyOf = (of: readonly TrialResult[]): number => mean(of.map(({ accuracy }) => accuracy));
const bytesOf = (of: readonly TrialResult[]): number => mean(of.map(({ bytes }) => bytes));

/** @param trials of each variant, one a seed. */
export function rowsOf(trials: readonly (readonly TrialResult[])[]): TrainedRow[] {
  const [plain] = trials;
  return VARIANTS.map(({ name }, i) => {
    const own = trials[i]!;
    const bytes = bytesOf(own);
    return {
      ...{ name, bytes, bytesPerStep: bytes / own[0]!.steps, fewer: bytesOf(plain!) / bytes },
      ...{ accuracy: accuracyOf(own), accuracies: own.map(({ accuracy }) => accuracy) },
      points: 100 * (accuracyOf(own) - accuracyOf(plain!)),
      stepMs: mean(own.map(({ stepMs }) => stepMs)),
    };
  });
}

/** What is not as it must be, in sentences. */
export function shortfalls(rows: readonly TrainedRow[]): string[] {
  return VARIANTS.flatMap(({ points, fewer }, i) => {
    const row = rows[i]!;
    const said: string[] = [];
    if (points !== null && !(row.points >= -points)) {
      said.push(
        `${row.name} is ${(-row.points).toFixed(2)} points less accurate than fp32, which is more than ${points}`,
      );
    }
    if (!(row.fewer >= fewer)) said.push(`${row.name} sends ${row.fewer.toFixed(1)} times fewer bytes, not ${fewer}`);
    return said;
  });
}
