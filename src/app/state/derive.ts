/** Numbers and facts that follow from the view; pure. */
import { leftOf, rightOf } from '../../collectives/plans/ringPlan.ts';
import type { Device } from '../../protocol/control.ts';
import { isElastic, type JobSpec } from '../../spec/job.ts';
import { dissenters } from '../../util/majority.ts';
import { SOFTWARE_RENDERER } from '../../util/softwareRenderer.ts';
import type { Lobby } from './room.ts';
import type { Run } from './run.ts';
import type { View } from './view.ts';

const MINUTE_MS = 60_000;
const ENDLESS_EPOCHS = 1000;

/** Samples a second of those that the last steps tell of; `null` before there are two. */
export function samplesPerSecond(run: Run): number | null {
  const first = run.recent[0];
  const last = run.recent.at(-1);
  if (first === undefined || last === undefined) return null;
  if (last.at <= first.at) return last.ms.total > 0 ? (last.samples * 1000) / last.ms.total : null;
  const later = run.recent.slice(1);
  const samples = later.reduce((sum, step) => sum + step.samples, 0);
  // Who watches is not told of every step.
  const perTold = (last.step - first.step) / later.length;
  return (samples * perTold * 1000) / (last.at - first.at);
}

/** Milliseconds until the last step at the present pace; `null` when unknown. */
export function timeLeft(run: Run, totalSteps: number | null): number | null {
  const first = run.recent[0];
  const last = run.recent.at(-1);
  if (totalSteps === null || first === undefined || last === undefined || run.recent.length < 2) return null;
  const stepMs = (last.at - first.at) / (last.step - first.step);
  const { maxMinutes } = run.job;
  const untilTime = maxMinutes === null ? Infinity : maxMinutes * MINUTE_MS - last.at;
  return Math.max(0, Math.min(untilTime, (totalSteps - last.step - 1) * stepMs));
}

/**
 * Whether nothing but its time is meant to end a run: its passes are as many as a job may have,
 * which is more than anybody waits for.
 */
export function endsByTimeOnly({ maxMinutes, maxSteps, epochs }: JobSpec): boolean {
  return maxMinutes !== null && maxSteps === null && epochs >= ENDLESS_EPOCHS;
}

/**
 * The share of a step that is communication, and the share of communication that is overlapped by
 * other work.
 */
export function communication(run: Run): { share: number; overlapped: number } | null {
  const sum = (pick: (ms: Run['recent'][number]['ms']) => number) =>
    run.recent.reduce((total, step) => total + pick(step.ms), 0);
  const total = sum((ms) => ms.total);
  const communicate = sum((ms) => ms.communicate);
  if (total <= 0) return null;
  const overlapped = communicate > 0 ? 1 - sum((ms) => ms.exposed) / communicate : 0;
  return { share: clamp(communicate / total), overlapped: clamp(overlapped) };
}

export type Agreement = { kind: 'unknown' } | { kind: 'agree' } | { kind: 'differ'; ranks: number[] };

/**
 * Whether all ranks hold the same state, and which do not: those apart from the most common hash.
 */
export function agreement(hashes: Run['hashes']): Agreement {
  if (hashes === null || hashes.hashes.length === 0) return { kind: 'unknown' };
  const ranks = dissenters(hashes.hashes);
  if (hashes.agree && ranks.length === 0) return { kind: 'agree' };
  return { kind: 'differ', ranks };
}

/**
 * Megabytes a second from each rank to its right neighbour while it talks, from the last two
 * exchanges.
 */
export function edgeRates(run: Run): (number | null)[] {
  const { statistics: now, earlierStatistics: before } = run;
  return Array.from({ length: run.worldSize }, (_, rank) => {
    const a = before?.ranks.find((one) => one.rank === rank);
    const b = now?.ranks.find((one) => one.rank === rank);
    if (a === undefined || b === undefined || now === null || before === null) return null;
    const ms = (now.step - before.step) * b.communicateMs;
    return ms > 0 ? (b.gradientBytesSent - a.gradientBytesSent) / 1000 / ms : null;
  });
}

/**
 * What theory says each rank sends for `steps` all-reduces of `gradientBytes`: 2(n-1)/n of each.
 */
export function theoreticalBytes(worldSize: number, gradientBytes: number, steps: number): number {
  return (2 * (worldSize - 1) * gradientBytes * steps) / worldSize;
}

/** The ranks on both sides; one in a world of two, none alone. */
export function neighbours(rank: number, worldSize: number): number[] {
  if (worldSize < 2) return [];
  const left = leftOf(rank, worldSize);
  const right = rightOf(rank, worldSize);
  return left === right ? [right] : [left, right].sort((a, b) => a - b);
}

/** Whether the job's files go round, and have not come to all. */
export function isDistributing(run: Run | null): boolean {
  const distribution = run?.fileDistribution ?? null;
  return distribution !== null && distribution.held.some((bytes) => bytes < distribution.total);
}

/** Whether this tab takes no part in what its room trains. */
export function isSpectating({ member, lobby }: View): boolean {
  return lobby?.spectators.some((one) => one.member === member) ?? false;
}

/** The rank that this tab is in a run; `null`: it watches, and is shown what that of `run` sees. */
export function ownRank(view: View, run: Run): number | null {
  return isSpectating(view) ? null : run.rank;
}

/** Whether steps are being taken, for all this tab knows. */
export function isTraining(view: View): boolean {
  return view.state === 'RUNNING' || (isSpectating(view) && view.lobby?.phase === 'RUNNING');
}

/**
 * Whether this tab is in a run that has neither ended nor failed, be it that it waits for somebody.
 */
export function isUnderWay({ run, failure, state, lobby }: View): boolean {
  const isOn = run !== null && run.result === null && failure === null && state !== 'OFFLINE';
  return isOn && lobby !== null && lobby.phase !== 'FORMING';
}

/** Ranks of the run's latest generation that are not in the room any more, while it is on. */
export function goneRanks(run: Run, lobby: Lobby | null): number[] {
  if (lobby === null || run.result !== null) return [];
  const here = new Set(lobby.members.map((one) => one.member));
  return run.members.flatMap((one, rank) => (here.has(one.member) ? [] : [rank]));
}

export function isReady({ member, lobby }: View): boolean {
  return (lobby?.members.find((one) => one.member === member)?.device ?? null) !== null;
}

/** Whether ranks may come and go while the room trains. */
export function isOpen({ nodes, job }: Lobby): boolean {
  return nodes !== null && isElastic(job);
}

/** Whether as many are ready as a run may have. */
export function isFull({ nodes, members }: Lobby): boolean {
  return nodes !== null && members.filter((one) => one.device !== null).length > nodes.max;
}

export function isHost(view: View): boolean {
  return view.member !== null && (view.lobby?.hosts.includes(view.member) ?? false);
}

/** How many more must be ready before the room starts by itself; `null` when the host starts it. */
export function missingToStart(lobby: Lobby): number | null {
  if (lobby.startAt === null) return null;
  return Math.max(0, lobby.startAt - lobby.members.filter((one) => one.device !== null).length);
}

/** Whether a device is this machine's processor, whatever its backend is called. */
export function isSoftware(device: Device | null): boolean {
  return device !== null && (['cpu', 'wasm'].includes(device.backend) || SOFTWARE_RENDERER.test(device.adapter));
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
