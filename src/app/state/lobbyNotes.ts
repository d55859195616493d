/**
 * Writes the notes of a lobby: what a run means for this tab, whether the host can start, and what
 * links through the server cost.
 */
import { isDataChosenInTabs, isCollectiveCodec, STRATEGIES } from '../../spec/job.ts';
import { uiMessages } from '../locales/index.ts';
import { algorithmProblem, bucketBytesOf } from './algorithm.ts';
import {
  hasTooManyReadyMembers,
  isElasticRoom,
  isTabReady,
  isSpectating,
  theoreticalAllReduceBytes,
} from './derive.ts';
import type { LobbyView } from './room.ts';
import type { TabView } from './view.ts';

/** Returns sentences for a tab in the lobby that say what the current run means for it. */
export function describeRunForLobby(view: TabView, lobby: LobbyView): string {
  const { outside, note } = uiMessages.value.lobby;
  if (view.state === 'LINKING') return outside.connecting;
  // When this tab has prepared the run, it shows the page of the run instead of the lobby.
  if (view.state === 'SYNCING') return outside.preparing;
  const about = outside.phases[lobby.phase === 'RUNNING' || lobby.phase === 'PAUSED' ? lobby.phase : 'SYNCING'];
  if (isSpectating(view)) return note.sentences(about, outside.watching);
  if (!isElasticRoom(lobby)) return note.sentences(about, outside.next);
  if (lobby.phase === 'PAUSED') return lobby.isPausedByHost ? outside.pausedByHost : outside.paused(lobby.waitingFor);
  if (!isTabReady(view)) return note.sentences(about, outside.unready);
  return note.sentences(about, hasTooManyReadyMembers(lobby) ? outside.full : outside.soon);
}

/**
 * Returns a sentence that says why this host cannot start yet; `null` if it can.
 *
 * @param files state of the files that this host chose.
 */
export function whyHostCannotStart(
  lobby: LobbyView,
  host: string | null,
  files: TabView['files'] = null,
): string | null {
  const { obstacle } = uiMessages.value.lobby;
  const ready = lobby.members.filter((one) => one.device !== null);
  const isSpectator = lobby.spectators.some((one) => one.member === host);
  if (isSpectator && ready.length === 0) return obstacle.onlySpectators;
  if (!isSpectator && !ready.some((one) => one.member === host)) {
    const { data } = lobby.job;
    const lacksFiles =
      (isDataChosenInTabs(data) && files === null) || (data.kind === 'shared' && data.files.length === 0);
    if (lacksFiles) return obstacle.files;
    const isUnfit = (isDataChosenInTabs(data) || data.kind === 'shared') && (files?.problem ?? null) !== null;
    return isUnfit ? obstacle.unfit : obstacle.warming;
  }
  if (isElasticRoom(lobby) && ready.length < lobby.nodes!.min) return obstacle.tooFew(lobby.nodes!.min, ready.length);
  const problem = algorithmProblem(lobby.job, ready.length);
  return problem === null ? null : obstacle.algorithm(problem);
}

export function noteOnReadyMembers(lobby: LobbyView): string {
  const { note } = uiMessages.value.lobby;
  const unready = lobby.members.filter((one) => one.device === null).map((one) => one.name);
  if (unready.length > 0) return note.unready(unready, isElasticRoom(lobby));
  if (lobby.members.length > 1) {
    return note.sentences(note.all(lobby.members.length), isElasticRoom(lobby) ? note.laterOpen : note.laterFixed);
  }
  const alone = lobby.spectators.length === 0 ? note.alone : note.oneAlone;
  return isElasticRoom(lobby) ? note.sentences(alone, note.laterOpen) : alone;
}

/**
 * Returns sentences about the pairs of tabs whose data will go through the server: how many there
 * are, how long the server needs for the data of a step, and how to avoid that. Returns `null` if
 * no such pair is known.
 */
export function noteOnServedPairs({ served, members, nodes, job }: LobbyView): string | null {
  if (served === undefined || served.pairs === 0) return null;
  const { pairs, areAll, bytesPerSecond } = served;
  const { note, server } = uiMessages.value.lobby;
  const ready = members.filter((one) => one.device !== null).length;
  const n = Math.min(ready, nodes?.max ?? ready);
  const buckets = bucketBytesOf(job);
  const { hasAllReduces, local } = STRATEGIES[job.strategy];
  const sentences = [server.pairs(pairs, n === 2 ? 1 : n)];
  // Only these strategies and codecs send the whole gradient in each step.
  if (buckets !== null && hasAllReduces && local === null && isCollectiveCodec(job.codec)) {
    const bytes = buckets.reduce((sum, one) => sum + one, 0);
    // A pair of neighbours sends in one direction, but a ring of two sends in both.
    const forwarded = theoreticalAllReduceBytes(n, bytes, n === 2 ? 2 * pairs : pairs);
    sentences.push(server.step(forwarded, bytesPerSecond, (1000 * forwarded) / bytesPerSecond));
  }
  sentences.push(areAll ? server.only : server.remedy);
  return sentences.reduce(note.sentences);
}
