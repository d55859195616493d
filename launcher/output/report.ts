/** Writes the report of a finished run, and checks that the ranks agree. */
import type { EventOf } from '../../src/protocol/events.ts';
import type {
  CodecChoice,
  MethodTestResult,
  RangeTestResult,
  RunResult,
  RingLinkCounts,
} from '../../src/protocol/runResult.ts';
import { metricEntries, metricsWithAccuracy } from '../../src/spec/measures.ts';
import { methodChangesLearning, learningMethodByName } from '../../src/spec/methods.ts';
import type { WorkShareReason } from '../../src/spec/names.ts';

/**
 * Returns `null` if all tabs report the same final state for all ranks, otherwise an error message.
 */
export function disagreement(results: readonly RunResult[]): string | null {
  const worldSize = results[0]?.worldSize ?? 0;
  const hashes = new Set(results.flatMap((result) => result.stateHash));
  const isComplete = results.every((result) => result.worldSize === worldSize && result.stateHash.length === worldSize);
  if (isComplete && hashes.size === 1) return null;
  const states = results[0]?.stateHash.map((hash, rank) => `rank ${rank} ${hash}`) ?? [];
  return `The ranks did not end in the same state (${states.join(', ')}), so the result is invalid. Please report this.`;
}

const SHARE_REASON: Record<WorkShareReason, string> = {
  equal: 'This run does not divide samples by speed.',
  unknown: 'Their speeds are not measured yet.',
  similar: 'Unequal shares would save too little time.',
  speed: 'Shares follow their measured speeds.',
  overhead: 'Smaller passes would cost more than unequal shares would save.',
};

const OVER: Record<keyof RingLinkCounts, string> = {
  webrtc: 'over WebRTC',
  server: 'through the server',
  memory: 'over message ports',
};

/** The shortest time for reading samples that is reported, in milliseconds. */
const LEAST_DATA_MS = 1;

/** Returns the result in a few lines for people. */
export function summarize(result: RunResult): string {
  const { worldSize, backend, adapter, transport, steps, stepMs } = result;
  const { valLoss, bigramLoss } = result;
  const isText = bigramLoss !== undefined && valLoss !== null;
  const sent = Math.max(...result.bytesSentPerRank);
  const ranks = worldSize === 1 ? '1 rank' : `${worldSize} ranks`;
  return [
    `${ranks} on ${backend} (${adapter})${describeLinks(transport)}: ${steps} steps in ${(result.ms / 1000).toFixed(1)} s.`,
    mainResult(result),
    ...(isText
      ? [
          `Held-out text: the loss is ${valLoss.toFixed(3)} nats per character. A bigram model has ${bigramLoss.toFixed(3)}.`,
        ]
      : []),
    `A step took ${ms(stepMs.median)} (p95 ${ms(stepMs.p95)}): ` +
      (stepMs.data >= LEAST_DATA_MS ? `reading samples ${ms(stepMs.data)}, ` : '') +
      `computation ${ms(stepMs.compute)}, ` +
      `communication ${ms(stepMs.communicate)} (${ms(stepMs.exposed)} not overlapped).`,
    `The busiest rank sent ${megabytes(sent)}; one gradient has ${megabytes(result.gradientBytes)}.`,
  ].join('\n');
}

/** Returns ` over WebRTC`, or the number of links of each kind if there are several kinds. */
function describeLinks(transport: RingLinkCounts): string {
  const used = (Object.keys(OVER) as (keyof RingLinkCounts)[]).filter((kind) => transport[kind] > 0);
  if (used.length === 1) return ` ${OVER[used[0]!]}`;
  const links = used.map((kind) => `${transport[kind]} ${OVER[kind]}`);
  return links.length === 0 ? '' : ` with links of several kinds (${links.join(', ')})`;
}

function mainResult(result: RunResult): string {
  const { rateTest, methods, loss, stateHash } = result;
  if (rateTest) return foundRate(rateTest);
  if (methods) return compareMethods(methods);
  return `Loss ${[loss.toFixed(4), ...formatMetrics(result)].join(', ')}. State ${stateHash[0]} on every rank.`;
}

/** Returns the metrics of held-out samples, without the loss: `accuracy 97.2 %`, `rmse 1234`. */
export function formatMetrics(result: Parameters<typeof metricsWithAccuracy>[0]): string[] {
  return metricEntries(metricsWithAccuracy(result)).map(([name, value]) => {
    const isShare = name === 'accuracy' || name === 'top-3';
    return `${name} ${isShare ? `${(value * 100).toFixed(1)} %` : value.toPrecision(4)}`;
  });
}

/** Returns one line with the codec that the ranks chose, and the reason. */
export function describeCodec({ codec, ownMs, exposedMs, expectedMs, suggestion }: CodecChoice): string {
  const added = `${ms(exposedMs)} per step (computation: ${ms(ownMs)})`;
  const reason =
    codec === 'fp32'
      ? `communication adds ${added}, and a codec would save too little to be worth its rounding.`
      : `with fp32, communication added ${added}; with ${codec} it should add about ${ms(expectedMs[codec])}.`;
  const advice = suggestion === null ? '' : ` The strategy ${suggestion} communicates less often.`;
  return `Codec ${codec}: ${reason}${advice}`;
}

type SharesDecision = Pick<EventOf<'shares'>, 'shares' | 'reason' | 'impossible'>;

/**
 * Returns whether shares were decided from measured speeds. At the beginning, they are equal
 * without a decision.
 */
export function isDecided({ reason }: SharesDecision): boolean {
  return reason !== 'equal' && reason !== 'unknown';
}

/**
 * Returns a summary of a decision. If the summaries of two successive decisions are equal, people
 * need not read the second decision: only speeds, or the reason for equal shares, have changed.
 */
export function gistOfShares(decision: SharesDecision): string {
  return [dividedStep(decision), ...decision.impossible.map(({ rank }) => rank)].join(' ');
}

/** Returns the shares of a step that the ranks have from now on, and the reason. */
export function describeShares(decision: SharesDecision): string {
  const { reason, impossible } = decision;
  const bounded = impossible.map(
    ({ rank, reported }) =>
      ` Rank ${rank} reports an impossible speed of ${reported} samples per second, so its share is at most an equal one. ` +
      'Reload that tab.',
  );
  return `${dividedStep(decision)} ${SHARE_REASON[reason]}${bounded.join('')}`;
}

function dividedStep({ shares, reason }: SharesDecision): string {
  if (reason !== 'speed') return 'Ranks have equal shares.';
  const total = shares.reduce((sum, share) => sum + share, 0);
  const percentages = shares.map((share) => `${((100 * share) / total).toFixed(0)} %`);
  return `Ranks compute ${percentages.join(', ')} of a step.`;
}

/** Returns the result of a range test, with advice. */
function foundRate({ rates, suggested, reason }: RangeTestResult): string {
  const tried = `Learning rates from ${rates[0]!.toExponential(0)} to ${rates.at(-1)!.toPrecision(2)} were tried`;
  if (suggested !== null) return `${tried}; the loss fell steepest at ${suggested}: train with --lr ${suggested}.`;
  return reason === 'short'
    ? `${tried}. These are too few for a suggestion, because the loss rose immediately or the time was up. Try other data or more time.`
    : `${tried}, and the loss did not clearly fall. Use a larger --batch or more --steps, and check that the labels fit the data.`;
}

function optionsOf(method: string): string {
  const { strategy, codec } = learningMethodByName(method);
  return `--strategy ${strategy}${codec === 'fp32' ? '' : ` --codec ${codec}`}`;
}

/** Returns the expected costs of each method, and the options of the best. */
function compareMethods({ costs, best, unchanged }: MethodTestResult): string {
  const rows = costs.map(
    ({ method, stepMs, bytesPerStep, timeToGoal }) =>
      `  ${optionsOf(method)}: ${ms(stepMs)} and ${(bytesPerStep / 1000).toFixed(1)} kB per step, ${timeToGoal.toFixed(1)} times the shortest time to a goal`,
  );
  const other = methodChangesLearning(best)
    ? ` It does not learn exactly what ddp learns; of the methods that do, ${optionsOf(unchanged)} is best.`
    : '';
  return ['Expected costs of each method:', ...rows, `Train with ${optionsOf(best)}.${other}`].join('\n');
}

function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)} MB`;
}
