/** Formats numbers for display, with few digits and a unit. */
import type { MetricName } from '../../spec/measures.ts';
import { nameOfRank } from '../people.ts';

/** A count: `812`, `3100`, `31.2 k`, `2.4 M`. */
export function formatCount(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value < 10_000) return value < 10 && !Number.isInteger(value) ? value.toFixed(1) : String(Math.round(value));
  if (value < 1e6) return `${trim(value / 1e3)} k`;
  return `${trim(value / 1e6)} M`;
}

/** A number of bytes in decimal units, as used for networks: `213 kB`. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) return '–';
  if (bytes < 1000) return `${Math.round(bytes)} B`;
  if (bytes < 1e6) return `${trim(bytes / 1e3)} kB`;
  if (bytes < 1e9) return `${trim(bytes / 1e6)} MB`;
  return `${trim(bytes / 1e9)} GB`;
}

/** A duration: `0.4 ms`, `12 ms`, `1.3 s`. */
export function formatMs(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 1000) return `${trim(ms)} ms`;
  return `${trim(ms / 1000)} s`;
}

/** A duration as on a clock: `0:07`, `1:12`, `1:02:09`. */
export function formatClockDuration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  const seconds = Math.max(0, Math.round(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** The time since an event, in words of `language`: `now`, `1 minute ago`, `3 days ago`. */
export function formatAgo(ms: number, language: string): string {
  const format = new Intl.RelativeTimeFormat(language, { numeric: 'auto' });
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return format.format(0, 'second');
  if (minutes < 60) return format.format(-minutes, 'minute');
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? format.format(-hours, 'hour') : format.format(-Math.floor(hours / 24), 'day');
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** A share between 0 and 1 in per cent: `31 %`, or `97.2 %` with `digits` = 1. */
export function formatPercent(share: number, digits = 0): string {
  return Number.isFinite(share) ? `${(share * 100).toFixed(digits)} %` : '–';
}

/** A loss: `2.31`, `0.213`, `0.00042`. */
export function formatLoss(loss: number): string {
  if (!Number.isFinite(loss)) return Number.isNaN(loss) ? 'NaN' : '∞';
  if (loss >= 10) return loss.toFixed(1);
  if (loss >= 1) return loss.toFixed(2);
  return loss >= 0.01 || loss === 0 ? loss.toFixed(3) : loss.toPrecision(2);
}

/** An amount in its own unit, with four significant figures: `1234000`, `12.34`, `0.001234`. */
export function formatSignificant(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : '–';
}

/**
 * Formats the value of a metric. Accuracies are shown in per cent, errors in the unit of the
 * target, and R2 with three decimals.
 */
export function formatMetric(name: MetricName, value: number): string {
  switch (name) {
    case 'accuracy':
    case 'top-3':
      return formatPercent(value, 1);
    case 'rmse':
    case 'mae':
      return formatSignificant(value);
    case 'r2':
      return Number.isFinite(value) ? value.toFixed(3) : '–';
    default:
      return name satisfies never;
  }
}

/** A learning rate, with two significant figures: `0.3`, `0.0032`, `4.5e-5`. */
export function formatLearningRate(rate: number): string {
  const short = Number(rate.toPrecision(2));
  return short < 0.001 ? short.toExponential() : String(short);
}

/** A ratio of two amounts: `2.1`, `9.0`, `13`. */
export function formatRatio(ratio: number): string {
  return ratio < 10 ? ratio.toFixed(1) : String(Math.round(ratio));
}

/** A count with its noun: `1 rank`, `3 ranks`. */
export function plural(count: number, one: string, many: string = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Shortens a hash, so that people can compare it by eye. */
export function shortHash(hash: string): string {
  return hash.slice(0, 7);
}

/** Returns a positive number with few figures: `213`, `21.3`, `21`, `2.1`, `2.0`. */
function trim(value: number): string {
  if (value >= 100) return String(Math.round(value));
  if (value >= 10) return value.toFixed(value >= 99.95 ? 0 : 1).replace(/\.0$/, '');
  return value.toFixed(1);
}

/** Returns a rank in words: `Ada (rank 1)`, or `rank 1` if its member is unknown. */
export function formatRank(rank: number, name = nameOfRank(rank)): string {
  return name === '' ? `rank ${rank}` : `${name} (rank ${rank})`;
}

/**
 * Returns a rank in words for the start of a sentence: `Rank 1`, or `ada (rank 1)`. The case of a
 * name is kept.
 */
export function formatRankAtStart(rank: number, name = nameOfRank(rank)): string {
  return name === '' ? `Rank ${rank}` : formatRank(rank, name);
}

/** Returns the names of ranks; `null` if a name is unknown. */
export function namesOfRanks(ranks: readonly number[]): string[] | null {
  const names = ranks.map(nameOfRank);
  return names.includes('') ? null : names;
}
