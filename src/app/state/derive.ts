/** Computes figures and facts from the view; pure. */
import { clamp } from '../../util/clamp.ts';
import { leftNeighbourOf, rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import type { ReportedDevice } from '../../protocol/room.ts';
import { isElasticJob, type JobSpec } from '../../spec/job.ts';
import { dissenters } from '../../util/mostFrequentVote.ts';
import { SOFTWARE_RENDERER } from '../../util/gpuAdapter.ts';
import { isMemberDeviceOpen, type LobbyView } from './room.ts';
import type { RunView } from './run.ts';
import type { TabView } from './view.ts';

const MINUTE_MS = 60_000;
const ENDLESS_EPOCHS = 1000;

/** Returns the samples per second over the latest steps; `null` before there are any. */
export function samplesPerSecond(run: RunView): number | null {
  const first = run.recent[0];
  const last = run.recent.at(-1);
  if (first === undefined || last === undefined) return null;
  if (last.at <= first.at) return last.ms.total > 0 ? (last.samples * 1000) / last.ms.total : null;
  const later = run.recent.slice(1);
  const samples = later.reduce((sum, step) => sum + step.samples, 0);
  // Spectators do not receive a report of every step, so a report may stand for several steps.
  const stepsPerReport = (last.step - first.step) / later.length;
  return (samples * stepsPerReport * 1000) / (last.at - first.at);
}

/** Returns the milliseconds until the final step at the current speed; `null` if unknown. */
export function timeLeftMs(run: RunView, totalSteps: number | null): number | null {
  const first = run.recent[0];
  const last = run.recent.at(-1);
  if (totalSteps === null || first === undefined || last === undefined || run.recent.length < 2) return null;
  const stepMs = (last.at - first.at) / (last.step - first.step);
  const { maxMinutes } = run.job;
  const untilTime = maxMinutes === null ? Infinity : maxMinutes * MINUTE_MS - last.at;
  return Math.max(0, Math.min(untilTime, (totalSteps - last.step - 1) * stepMs));
}

/**
 * Returns whether only the time limit ends a run: the job has no limit of steps, and its number of
 * epochs counts as endless (`ENDLESS_EPOCHS` or more).
 */
export function hasOnlyTimeLimit({ maxMinutes, maxSteps, epochs }: JobSpec): boolean {
  return maxMinutes !== null && maxSteps === null && epochs >= ENDLESS_EPOCHS;
}

/**
 * Returns the share of a step that is communication, and the share of the communication that
 * overlaps with other work.
 */
export function communicationShares(run: RunView): { share: number; overlapped: number } | null {
  const sum = (pick: (ms: RunView['recent'][number]['ms']) => number) =>
    run.recent.reduce((total, step) => total + pick(step.ms), 0);
  const total = sum((ms) => ms.total);
  const communicate = sum((ms) => ms.communicate);
  if (total <= 0) return null;
  const overlapped = communicate > 0 ? 1 - sum((ms) => ms.exposed) / communicate : 0;
  return { share: clamp(communicate / total, 0, 1), overlapped: clamp(overlapped, 0, 1) };
}

export type StateAgreement = { kind: 'unknown' } | { kind: 'agree' } | { kind: 'differ'; ranks: number[] };

/**
 * Returns whether all ranks have the same state. If not, also returns the ranks whose hash differs
 * from the most common hash.
 */
export function stateAgreementOf(hashes: RunView['hashes']): StateAgreement {
  if (hashes === null || hashes.hashes.length === 0) return { kind: 'unknown' };
  const ranks = dissenters(hashes.hashes);
  if (hashes.agree && ranks.length === 0) return { kind: 'agree' };
  return { kind: 'differ', ranks };
}

/**
 * Returns the megabytes per second from each rank to its right neighbour while ranks communicate,
 * computed from the latest two exchanges of statistics.
 */
export function edgeMegabytesPerSecond(run: RunView): (number | null)[] {
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
 * Returns the number of bytes that each rank sends in theory for `steps` all-reduces of
 * `gradientBytes`: 2(n-1)/n of the gradient for each all-reduce.
 */
export function theoreticalAllReduceBytes(worldSize: number, gradientBytes: number, steps: number): number {
  return (2 * (worldSize - 1) * gradientBytes * steps) / worldSize;
}

/**
 * Returns the neighbours of a rank, in ascending order. A rank has two neighbours, but only one in
 * a world of two, and no neighbour in a world of one.
 */
export function ringNeighboursOf(rank: number, worldSize: number): number[] {
  if (worldSize < 2) return [];
  const left = leftNeighbourOf(rank, worldSize);
  const right = rightNeighbourOf(rank, worldSize);
  return left === right ? [right] : [left, right].sort((a, b) => a - b);
}

/**
 * Returns whether files of the job or the state of the run are being distributed, and some rank
 * still lacks a part of them.
 */
export function isDistributing(run: RunView | null): boolean {
  const distribution = run?.distribution ?? null;
  return distribution !== null && distribution.bytesPerRank.some((bytes) => bytes < distribution.total);
}

/** Returns whether this tab only watches. */
export function isSpectating({ member, lobby }: TabView): boolean {
  return lobby?.spectators.some((one) => one.member === member) ?? false;
}

/**
 * Returns this tab's rank in a run, or `null` if this tab only watches. For a spectator, `run.rank`
 * is the rank whose view of the run is shown.
 */
export function ownRank(view: TabView, run: RunView): number | null {
  return isSpectating(view) ? null : run.rank;
}

/** Returns whether this tab's room is taking steps now, according to this tab. */
export function isRoomTraining(view: TabView): boolean {
  return view.state === 'RUNNING' || (isSpectating(view) && view.lobby?.phase === 'RUNNING');
}

/**
 * Returns whether this tab is in a run that has neither ended nor failed. The run may be waiting.
 */
export function isRunUnderWay({ run, failure, state, lobby }: TabView): boolean {
  const isOn = run !== null && run.result === null && failure === null && state !== 'OFFLINE';
  return isOn && lobby !== null && lobby.phase !== 'FORMING';
}

/** Returns the ranks of the latest generation that have left the room during the run. */
export function ranksThatLeft(run: RunView, lobby: LobbyView | null): number[] {
  if (lobby === null || run.result !== null) return [];
  const here = new Set(lobby.members.map((one) => one.member));
  return run.members.flatMap((one, rank) => (here.has(one.member) ? [] : [rank]));
}

/**
 * Returns whether the run ended before its last step, because the host ended it or a rank left.
 * This tab is still in the room. Such a failure has the name of RunOverError.
 */
export function isRunEndedEarly({ run, failure }: TabView): boolean {
  return run !== null && failure?.name === 'RunOverError';
}

/** Returns whether the host has removed this tab. Such a failure has the name of RemovedError. */
export function isTabRemoved(failure: TabView['failure']): boolean {
  return failure?.name === 'RemovedError';
}

/**
 * Returns whether this tab loses something if it leaves the room: its part in a run, its model, or
 * its connection to other tabs. A tab that only watches loses nothing.
 */
export function wouldLoseByLeaving(view: TabView): boolean {
  const { lobby, run } = view;
  return lobby !== null && !isSpectating(view) && (run !== null || lobby.members.length > 1);
}

export function isTabReady({ member, lobby }: TabView): boolean {
  return isMemberDeviceOpen(lobby, member);
}

/** Returns whether ranks may join and leave during a run. */
export function isElasticRoom({ nodes, job }: LobbyView): boolean {
  return nodes !== null && isElasticJob(job);
}

/** Returns whether more members are ready than a run may have ranks. */
export function hasTooManyReadyMembers({ nodes, members }: LobbyView): boolean {
  return nodes !== null && members.filter((one) => one.device !== null).length > nodes.max;
}

export function isHost(view: TabView): boolean {
  return view.member !== null && (view.lobby?.hosts.includes(view.member) ?? false);
}

/**
 * Returns the number of tabs that an automatic start still waits for; `null` if the host starts the
 * run.
 */
export function countTabsMissingToStart(lobby: LobbyView): number | null {
  if (lobby.startAt === null) return null;
  return Math.max(0, lobby.startAt - lobby.members.filter((one) => one.device !== null).length);
}

/** Returns whether a device computes on the CPU, whatever the name of its backend is. */
export function isSoftwareDevice(device: ReportedDevice | null): boolean {
  return device !== null && (['cpu', 'wasm'].includes(device.backend) || SOFTWARE_RENDERER.test(device.adapter));
}
