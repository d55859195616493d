/** Numbers and sentences that follow from the view; pure. */
import type { Device } from '../protocol/control.ts';
import { seats } from '../protocol/ranks.ts';
import { dissenters } from '../util/majority.ts';
import { list, plural } from './format.ts';
import type { Lobby, Run, View } from './view.ts';

/** Samples a second of those that the last steps tell of; `null` before there are two. */
export function samplesPerSecond(run: Run): number | null {
  const first = run.recent[0];
  const last = run.recent.at(-1);
  if (first === undefined || last === undefined) return null;
  if (last.at <= first.at) return last.ms.total > 0 ? (last.samples * 1000) / last.ms.total : null;
  const samples = run.recent.slice(1).reduce((sum, step) => sum + step.samples, 0);
  return (samples * 1000) / (last.at - first.at);
}

/** Milliseconds until the last step at the present pace; `null` when unknown. */
export function timeLeft(run: Run, totalSteps: number | null): number | null {
  const first = run.recent[0];
  const last = run.recent.at(-1);
  if (totalSteps === null || first === undefined || last === undefined || run.recent.length < 2) return null;
  const stepMs = (last.at - first.at) / (run.recent.length - 1);
  return Math.max(0, totalSteps - last.step - 1) * stepMs;
}

/** Of a step's time, the share spent talking; of the talking, the share that something else ran beside. */
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

/** Whether all ranks hold the same state, and which do not: those apart from the most common hash. */
export function agreement(hashes: Run['hashes']): Agreement {
  if (hashes === null || hashes.hashes.length === 0) return { kind: 'unknown' };
  const ranks = dissenters(hashes.hashes);
  if (hashes.agree && ranks.length === 0) return { kind: 'agree' };
  return { kind: 'differ', ranks };
}

/** Megabytes a second from each rank to its right neighbour while it talks, from the last two exchanges. */
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

/** What theory says each rank sends for `steps` all-reduces of `gradientBytes`: 2(n-1)/n of each. */
export function theoreticalBytes(worldSize: number, gradientBytes: number, steps: number): number {
  return (2 * (worldSize - 1) * gradientBytes * steps) / worldSize;
}

/** The ranks on both sides; one in a world of two, none alone. */
export function neighbours(rank: number, worldSize: number): number[] {
  if (worldSize < 2) return [];
  const left = (rank + worldSize - 1) % worldSize;
  const right = (rank + 1) % worldSize;
  return left === right ? [right] : [left, right].sort((a, b) => a - b);
}

export interface Spoken {
  word: string;
  /** The word and what there is to say about it: `connecting to rank 3`. */
  text: string;
  /** `busy` for what passes by itself, `wait` for what somebody must do. */
  mood: 'good' | 'busy' | 'wait' | 'wrong';
}

/** This rank's state in plain words. */
export function spokenState(view: View): Spoken {
  const between = view.state === 'WAITING' || view.state === 'OFFLINE' || view.state === 'RUNNING';
  if (view.run !== null && view.run.result !== null && between) return say('finished', '', 'good');
  if (view.failure !== null && between) return say('stopped', '', 'wrong');
  if (view.warmup !== null) return say('warming up', `: ${lowerFirst(view.warmup)}`, 'busy');
  switch (view.state) {
    case 'OFFLINE':
      return say('not connected', '', view.member === null ? 'wait' : 'wrong');
    case 'WAITING':
      return say('waiting', waitingFor(view), 'wait');
    case 'LINKING':
      return say('connecting', linkingTo(view), 'busy');
    case 'SYNCING':
      return say('syncing', `: ${view.detail || 'all must start from the same numbers'}`, 'busy');
    case 'RUNNING':
      // What the engine adds to "training" is news, such as that the server is away.
      return say('training', view.detail.replace(/^training/, ''), 'good');
    default:
      return view.state satisfies never;
  }
}

function say(word: string, more: string, mood: Spoken['mood']): Spoken {
  return { word, text: word + more, mood };
}

/** For a sentence of its own that goes on after a colon; abbreviations stay as they are. */
function lowerFirst(text: string): string {
  return /^[A-Z][a-z]/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text;
}

function waitingFor(view: View): string {
  const lobby = view.lobby;
  if (lobby === null) return '';
  if (lobby.phase !== 'FORMING') return ' for the next start: the others are training';
  if (lobby.members.find((one) => one.member === view.member)?.device === null) return ' to get ready';
  const missing = missingToStart(lobby);
  if (missing !== null && missing > 0) return ` for ${plural(missing, 'more tab')}`;
  return isHost(view) ? ' for you to start' : ' for the host to start';
}

/** Until the epoch is announced, who is next to whom follows from the room and who is ready. */
function linkingTo(view: View): string {
  const { run, lobby } = view;
  if (run !== null && run.epoch === view.epoch) {
    const missing = neighbours(run.rank, run.worldSize).filter((rank) => run.links[rank]?.up !== true);
    return missing.length === 0 ? ': linked, waiting for the others' : toRanks(missing);
  }
  const ring = seats(lobby?.members.filter((one) => one.device !== null) ?? []);
  const rank = ring.findIndex((one) => one?.member === view.member);
  return rank < 0 ? '' : toRanks(neighbours(rank, ring.length));
}

function toRanks(ranks: readonly number[]): string {
  return ranks.length === 0 ? '' : ` to ${ranks.length === 1 ? 'rank' : 'ranks'} ${list(ranks)}`;
}

export function isHost(view: View): boolean {
  return view.member !== null && (view.lobby?.hosts.includes(view.member) ?? false);
}

/** How many more must be ready before the room starts by itself; `null` when the host starts it. */
export function missingToStart(lobby: Lobby): number | null {
  if (lobby.startAt === null) return null;
  return Math.max(0, lobby.startAt - lobby.members.filter((one) => one.device !== null).length);
}

/** Why the host cannot start yet, in one sentence; `null` when nothing stands in the way. */
export function startObstacle(lobby: Lobby): string | null {
  if (lobby.phase !== 'FORMING') return lobby.phase === 'RUNNING' ? 'The run is on.' : 'Starting …';
  const host = lobby.members.find((one) => lobby.hosts.includes(one.member));
  if (host?.device !== null) {
    const ready = lobby.members.filter((one) => one.device !== null).length;
    if (lobby.job.strategy !== 'data-parallel' || ready < 2) return null;
    return `Workers in one tab train alone, and ${ready} tabs are ready: choose another strategy.`;
  }
  if (lobby.job.data.kind === 'files') return 'Choose the data files first.';
  return 'This tab is still getting ready.';
}

/** What the host should know before starting, in one sentence. */
export function startNote(lobby: Lobby): string {
  const unready = lobby.members.filter((one) => one.device === null).map((one) => one.name);
  if (unready.length > 0) {
    const names =
      unready.length > 3 ? `${unready.slice(0, 2).join(', ')} and ${unready.length - 2} others` : list(unready);
    return `${names} ${unready.length === 1 ? 'is' : 'are'} not ready, and would sit this run out.`;
  }
  if (lobby.job.strategy === 'data-parallel') return `This tab starts ${plural(lobby.job.replicas, 'worker')}.`;
  if (lobby.members.length === 1) return 'You can start alone; there is nothing to exchange then.';
  return `All ${lobby.members.length} tabs are ready. Who comes later can join when the run has ended.`;
}

/** Whether a device is this machine's processor, whatever its backend is called. */
export function isSoftware(device: Device | null): boolean {
  return (
    device !== null && (device.backend === 'cpu' || /swiftshader|llvmpipe|software|basic render/i.test(device.adapter))
  );
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
