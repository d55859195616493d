/** Numbers and sentences that follow from the view; pure. */
import { leftOf, rightOf } from '../../collectives/plans/ringPlan.ts';
import type { Device } from '../../protocol/room.ts';
import { isChosenByTabs, isElastic, type JobSpec } from '../../spec/job.ts';
import { dissenters } from '../../util/majority.ts';
import { SOFTWARE_RENDERER } from '../../util/softwareRenderer.ts';
import type { Lobby, Run, View } from './view.ts';
import { messages } from '../locales/index.ts';

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
 * Of a step's time, the share spent talking; of the talking, the share that something else ran
 * beside.
 */
export function talking(run: Run): { share: number; hidden: number } | null {
  const sum = (pick: (ms: Run['recent'][number]['ms']) => number) =>
    run.recent.reduce((total, step) => total + pick(step.ms), 0);
  const total = sum((ms) => ms.total);
  const communicate = sum((ms) => ms.communicate);
  if (total <= 0) return null;
  const hidden = communicate > 0 ? 1 - sum((ms) => ms.exposed) / communicate : 0;
  return { share: clamp(communicate / total), hidden: clamp(hidden) };
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

interface Spoken {
  word: string;
  /** The word and what there is to say about it: `connecting to rank 3`. */
  text: string;
  /** `busy` for what passes by itself, `wait` for what somebody must do. */
  mood: 'good' | 'busy' | 'wait' | 'wrong';
}

/** This rank's state in plain words. */
export function spokenState(view: View): Spoken {
  const { state, run, lobby } = view;
  const { state: says } = messages.value;
  const between = state === 'WAITING' || state === 'OFFLINE' || state === 'RUNNING';
  if (run !== null && run.result !== null && between) return say(says.finished, '', 'good');
  if (view.failure !== null && between) return say(says.stopped, '', 'wrong');
  if (view.isServerAway && state === 'WAITING') return say(says.waiting, says.waitingFor.server, 'wait');
  if (isSpectating(view) && lobby !== null && state === 'WAITING') return whileWatching(lobby);
  const isWarm = state === 'WAITING' && lobby !== null && lobby.phase !== 'FORMING' && isReady(view);
  if (view.warmup !== null && !isWarm) return say(says.warmingUp, says.stages[view.warmup], 'busy');
  switch (state) {
    case 'OFFLINE':
      return say(says.offline, '', view.member === null ? 'wait' : 'wrong');
    case 'WAITING':
      return isUnderWay(view) ? findingTogether(view, run!) : say(says.waiting, waitingFor(view), 'wait');
    case 'LINKING':
      if (isUnderWay(view)) return findingTogether(view, run!);
      return say(says.connecting, says.connectingTo(view.connecting), 'busy');
    case 'SYNCING':
      return say(says.syncing, isDistributing(run) ? says.syncingFiles : says.syncingAbout, 'busy');
    case 'RUNNING':
      if (view.isServerAway) return say(says.training, says.trainingServerAway, 'good');
      // It trains on in the ring that is, while the one to come is linked.
      return say(says.training, view.connecting.length > 0 ? says.trainingOthersJoin : '', 'good');
    default:
      return state satisfies never;
  }
}

/** Whether the job's files go round, and have not come to all. */
export function isDistributing(run: Run | null): boolean {
  const spread = run?.spread ?? null;
  return spread !== null && spread.held.some((bytes) => bytes < spread.total);
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

function whileWatching(lobby: Lobby): Spoken {
  const { state: says } = messages.value;
  if (lobby.phase === 'PAUSED') return paused(lobby);
  return lobby.phase === 'FORMING' ? say(says.watching, says.watchingNothing, 'wait') : say(says.watching, '', 'good');
}

function say(word: string, more: string, mood: Spoken['mood']): Spoken {
  return { word, text: word + more, mood };
}

/**
 * Whether this tab is in a run that has neither ended nor failed, be it that it waits for somebody.
 */
export function isUnderWay({ run, failure, state, lobby }: View): boolean {
  const isOn = run !== null && run.result === null && failure === null && state !== 'OFFLINE';
  return isOn && lobby !== null && lobby.phase !== 'FORMING';
}

/** Between two generations of a run. */
function findingTogether(view: View, run: Run): Spoken {
  const { state: says } = messages.value;
  const lobby = view.lobby!;
  if (lobby.phase === 'PAUSED') return paused(lobby);
  if (!isReady(view)) return say(says.comingBack, says.comingBackAbout, 'busy');
  return say(says.rejoining, says.rejoiningAbout(goneRanks(run, lobby)), 'busy');
}

function paused({ isHeld, waitingFor: missing }: Lobby): Spoken {
  const { state: says } = messages.value;
  return say(says.paused, isHeld ? says.pausedByHost : says.pausedFor(missing), 'wait');
}

/** Ranks of the run's latest generation that are not in the room any more, while it is on. */
export function goneRanks(run: Run, lobby: Lobby | null): number[] {
  if (lobby === null || run.result !== null) return [];
  const here = new Set(lobby.members.map((one) => one.member));
  return run.members.flatMap((one, rank) => (here.has(one.member) ? [] : [rank]));
}

function isReady({ member, lobby }: View): boolean {
  return (lobby?.members.find((one) => one.member === member)?.device ?? null) !== null;
}

function waitingFor(view: View): string {
  const lobby = view.lobby;
  if (lobby === null) return '';
  const { waitingFor: why } = messages.value.state;
  if (lobby.phase !== 'FORMING' && !isOpen(lobby)) return why.next;
  if (!isReady(view)) return why.ready;
  if (lobby.phase === 'PAUSED') return lobby.isHeld ? why.resume : why.tabs(lobby.waitingFor);
  if (lobby.phase !== 'FORMING') return isFull(lobby) ? why.place : why.run;
  const missing = missingToStart(lobby);
  if (missing !== null && missing > 0) return why.tabs(missing);
  return isHost(view) ? why.you : why.host;
}

/** Whether ranks may come and go while the room trains. */
export function isOpen({ nodes, job }: Lobby): boolean {
  return nodes !== null && isElastic(job);
}

/** Whether as many are ready as a run may have. */
function isFull({ nodes, members }: Lobby): boolean {
  return nodes !== null && members.filter((one) => one.device !== null).length > nodes.max;
}

/** What a run that is on means for a tab in its room's lobby, in a sentence. */
export function runFromOutside(view: View, lobby: Lobby): string {
  const { outside } = messages.value.lobby;
  if (isSpectating(view)) return outside.watching;
  if (!isOpen(lobby)) return outside.next;
  if (view.state === 'LINKING' || view.state === 'SYNCING') return outside.connecting;
  if (lobby.phase === 'PAUSED') return lobby.isHeld ? outside.held : outside.paused(lobby.waitingFor);
  if (!isReady(view)) return outside.unready;
  return isFull(lobby) ? outside.full : outside.soon;
}

export function isHost(view: View): boolean {
  return view.member !== null && (view.lobby?.hosts.includes(view.member) ?? false);
}

/** How many more must be ready before the room starts by itself; `null` when the host starts it. */
export function missingToStart(lobby: Lobby): number | null {
  if (lobby.startAt === null) return null;
  return Math.max(0, lobby.startAt - lobby.members.filter((one) => one.device !== null).length);
}

/**
 * Why this host cannot start yet, in one sentence; `null` when nothing stands in the way. `files`:
 * what is known of its own.
 */
export function startObstacle(lobby: Lobby, host: string | null, files: View['files'] = null): string | null {
  const { obstacle } = messages.value.lobby;
  const ready = lobby.members.filter((one) => one.device !== null);
  const isSpectator = lobby.spectators.some((one) => one.member === host);
  if (isSpectator && ready.length === 0) return obstacle.onlySpectators;
  if (!isSpectator && !ready.some((one) => one.member === host)) {
    const { data } = lobby.job;
    const lacksFiles = (isChosenByTabs(data) && files === null) || (data.kind === 'shared' && data.files.length === 0);
    if (lacksFiles) return obstacle.files;
    const isUnfit = (isChosenByTabs(data) || data.kind === 'shared') && (files?.problem ?? null) !== null;
    return isUnfit ? obstacle.unfit : obstacle.warming;
  }
  if (lobby.job.strategy === 'data-parallel' && ready.length > 1) return obstacle.oneTab(ready.length);
  if (isOpen(lobby) && ready.length < lobby.nodes!.min) return obstacle.tooFew(lobby.nodes!.min, ready.length);
  return null;
}

/** What the host should know before starting, in a sentence or two. */
export function startNote(lobby: Lobby): string {
  const { note } = messages.value.lobby;
  const unready = lobby.members.filter((one) => one.device === null).map((one) => one.name);
  if (unready.length > 0) return note.unready(unready, isOpen(lobby));
  if (lobby.job.strategy === 'data-parallel') return note.workers(lobby.job.replicas);
  if (lobby.members.length > 1) {
    return `${note.all(lobby.members.length)} ${isOpen(lobby) ? note.laterOpen : note.laterFixed}`;
  }
  const alone = lobby.spectators.length === 0 ? note.alone : note.oneAlone;
  return isOpen(lobby) ? `${alone} ${note.laterOpen}` : alone;
}

/** Whether a device is this machine's processor, whatever its backend is called. */
export function isSoftware(device: Device | null): boolean {
  return device !== null && (['cpu', 'wasm'].includes(device.backend) || SOFTWARE_RENDERER.test(device.adapter));
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
