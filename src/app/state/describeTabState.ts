/** Describes the state of this tab in words; pure. */
import { uiMessages } from '../locales/index.ts';
import {
  ranksThatLeft,
  isRunEndedEarly,
  isDistributing,
  hasTooManyReadyMembers,
  isHost,
  isElasticRoom,
  isTabReady,
  isSpectating,
  isRunUnderWay,
  countTabsMissingToStart,
} from './derive.ts';
import type { LobbyView } from './room.ts';
import type { RunView } from './run.ts';
import type { TabView } from './view.ts';

interface StateText {
  word: string;
  /** The word, followed by details: `connecting to rank 3`. */
  text: string;
  /**
   * `good`: nothing is wrong. `busy`: the state ends by itself. `wait`: the tab waits for somebody
   * or for the server. `wrong`: something has failed.
   */
  status: 'good' | 'busy' | 'wait' | 'wrong';
}

export function describeTabState(view: TabView): StateText {
  const { state, run, lobby } = view;
  const { state: labels } = uiMessages.value;
  const between = state === 'WAITING' || state === 'OFFLINE' || state === 'RUNNING';
  if (run !== null && run.result !== null && between) return stateText(labels.finished, '', 'good');
  if (view.failure !== null && between) return stateText(labels.stopped, '', isRunEndedEarly(view) ? 'wait' : 'wrong');
  if (view.isServerAway && state === 'WAITING') return stateText(labels.waiting, labels.waitingFor.server, 'wait');
  if (isSpectating(view) && lobby !== null && state === 'WAITING') return describeWatching(lobby);
  const isWarm = state === 'WAITING' && lobby !== null && lobby.phase !== 'FORMING' && isTabReady(view);
  if (view.warmup !== null && !isWarm) return stateText(labels.warmingUp, labels.stages[view.warmup], 'busy');
  switch (state) {
    case 'OFFLINE':
      return stateText(labels.offline, '', view.member === null ? 'wait' : 'wrong');
    case 'WAITING':
      return isRunUnderWay(view)
        ? describeRejoining(view, run!)
        : stateText(labels.waiting, waitingReason(view), 'wait');
    case 'LINKING':
      if (isRunUnderWay(view)) return describeRejoining(view, run!);
      return stateText(labels.connecting, labels.connectingTo(view.connecting), 'busy');
    case 'SYNCING':
      return stateText(
        labels.syncing,
        isDistributing(run) ? labels.syncingWhat[run!.distribution!.what] : labels.syncingAbout,
        'busy',
      );
    case 'RUNNING':
      if (view.isServerAway) return stateText(labels.training, labels.trainingServerAway, 'good');
      // Training continues in the current ring while the next ring is being connected.
      return stateText(labels.training, view.connecting.length > 0 ? labels.trainingOthersJoin : '', 'good');
    default:
      return state satisfies never;
  }
}

function describeWatching(lobby: LobbyView): StateText {
  const { state: labels } = uiMessages.value;
  if (lobby.phase === 'PAUSED') return describePaused(lobby);
  return lobby.phase === 'FORMING'
    ? stateText(labels.watching, labels.watchingNothing, 'wait')
    : stateText(labels.watching, '', 'good');
}

function stateText(word: string, more: string, status: StateText['status']): StateText {
  return { word, text: word + more, status };
}

/** Describes the time between two generations of a run. */
function describeRejoining(view: TabView, run: RunView): StateText {
  const { state: labels } = uiMessages.value;
  const lobby = view.lobby!;
  if (lobby.phase === 'PAUSED') return describePaused(lobby);
  if (!isTabReady(view)) return stateText(labels.reconnecting, labels.reconnectingAbout, 'busy');
  return stateText(labels.rejoining, labels.rejoiningAbout(ranksThatLeft(run, lobby)), 'busy');
}

function describePaused({ isPausedByHost, waitingFor: missing }: LobbyView): StateText {
  const { state: labels } = uiMessages.value;
  return stateText(labels.paused, isPausedByHost ? labels.pausedByHost : labels.pausedFor(missing), 'wait');
}

function waitingReason(view: TabView): string {
  const lobby = view.lobby;
  if (lobby === null) return '';
  const { waitingFor: why } = uiMessages.value.state;
  if (lobby.phase !== 'FORMING' && !isElasticRoom(lobby)) return why.next;
  if (!isTabReady(view)) return why.ready;
  if (lobby.phase === 'PAUSED') return lobby.isPausedByHost ? why.resume : why.tabs(lobby.waitingFor);
  if (lobby.phase !== 'FORMING') return hasTooManyReadyMembers(lobby) ? why.place : why.run;
  const missing = countTabsMissingToStart(lobby);
  if (missing !== null && missing > 0) return why.tabs(missing);
  return isHost(view) ? why.you : why.host;
}
