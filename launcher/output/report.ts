/** What a finished run is told as, and whether its ranks agree. */
import type { CodecChoice, RateTest, RunResult } from '../../src/protocol/runResult.ts';
import { metricEntries, metricsTold } from '../../src/spec/measures.ts';

/** `null` when every rank ended with the same state, by every tab's account; else a sentence. */
export function disagreement(results: readonly RunResult[]): string | null {
  const worldSize = results[0]?.worldSize ?? 0;
  const hashes = new Set(results.flatMap((result) => result.stateHash));
  const isComplete = results.every((result) => result.worldSize === worldSize && result.stateHash.length === worldSize);
  if (isComplete && hashes.size === 1) return null;
  const states = results[0]?.stateHash.map((hash, rank) => `rank ${rank} ${hash}`) ?? [];
  return `The ranks did not end in the same state (${states.join(', ')}), so the result is void: please report this.`;
}

const OVER: Record<RunResult['transport'], string> = {
  webrtc: ' over WebRTC',
  memory: ' over message ports',
  mixed: ' over WebRTC and message ports',
  none: '',
  unknown: '',
};

/** The result in a few lines for people. */
export function summarize(result: RunResult): string {
  const { worldSize, backend, adapter, transport, steps, stepMs } = result;
  const { valLoss, bigramLoss } = result;
  const isText = bigramLoss !== undefined && valLoss !== null;
  const sent = Math.max(...result.bytesSentPerRank);
  const ranks = worldSize === 1 ? '1 rank' : `${worldSize} ranks`;
  const { rateTest } = result;
  return [
    `${ranks} on ${backend} (${adapter})${OVER[transport]}: ${steps} steps in ${(result.ms / 1000).toFixed(1)} s.`,
    rateTest
      ? foundRate(rateTest)
      : `Loss ${[result.loss.toFixed(4), ...sayMetrics(result)].join(', ')}. State ${result.stateHash[0]} on every rank.`,
    ...(isText
      ? [`Held-out text: ${valLoss.toFixed(3)} nats a character; a bigram model ${bigramLoss.toFixed(3)}.`]
      : []),
    `A step took ${ms(stepMs.median)} (p95 ${ms(stepMs.p95)}): computing ${ms(stepMs.compute)}, ` +
      `talking ${ms(stepMs.communicate)}, of which ${ms(stepMs.exposed)} nothing else ran beside.`,
    `The busiest rank sent ${megabytes(sent)} to train; one gradient is ${megabytes(result.gradientBytes)}.`,
  ].join('\n');
}

/** `accuracy 97.2 %`, `rmse 1234`: what was told of held-out samples beside their loss. */
export function sayMetrics(told: Parameters<typeof metricsTold>[0]): string[] {
  return metricEntries(metricsTold(told)).map(([name, value]) => {
    const isShare = name === 'accuracy' || name === 'top-3';
    return `${name} ${isShare ? `${(value * 100).toFixed(1)} %` : value.toPrecision(4)}`;
  });
}

/** The codec that ranks chose, and why, in a line. */
export function describeCodec({ codec, ownMs, exposedMs, expectedMs, suggestion }: CodecChoice): string {
  const added = `${ms(exposedMs)} to ${ms(ownMs)} of computation`;
  const reason =
    codec === 'fp32'
      ? `communication adds ${added}, and a codec would save too little to be worth its rounding.`
      : `with fp32, communication added ${added}; with ${codec} it should add about ${ms(expectedMs[codec])}.`;
  const advice = suggestion === null ? '' : ` The strategy ${suggestion} communicates less often.`;
  return `Codec ${codec}: ${reason}${advice}`;
}

/** What a range test has found, and what to do with it. */
function foundRate({ rates, suggested, reason }: RateTest): string {
  const tried = `Rates from ${rates[0]!.toExponential(0)} to ${rates.at(-1)!.toPrecision(2)} were tried`;
  if (suggested !== null) return `${tried}; the loss fell steepest at ${suggested}: train with --lr ${suggested}.`;
  return reason === 'short'
    ? `${tried}, too few to suggest one: the loss rose at once, or time was up. Give it other data or more time.`
    : `${tried}, and the loss fell clearly at none: take a larger --batch or more --steps, and look whether the labels fit the data.`;
}

function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)} MB`;
}
