/** What state a tab is in, and why: a word, and what is said after it. */
import { list, plural } from '../format.ts';

const ranks = (of: readonly number[]): string => `${of.length === 1 ? 'rank' : 'ranks'} ${list(of)}`;

export const state = {
  finished: 'finished',
  stopped: 'stopped',
  offline: 'not connected',
  waiting: 'waiting',
  waitingFor: {
    server: ': the signaling server is away, and looked for',
    next: ' for the next start: the others are training',
    ready: ' to get ready',
    tabs: (more: number) => ` for ${plural(more, 'more tab')}`,
    resume: ' for the host to go on',
    place: ' for a place in the run',
    run: ' to join the run',
    you: ' for you to start',
    host: ' for the host to start',
  },
  warmingUp: 'warming up',
  /** What is being got ready. */
  stages: {
    data: ': loading the data',
    drawing: ': drawing digits',
    compiling: ': compiling the model for this GPU',
    recovering: ': the GPU was lost, and is set up again',
  },
  connecting: 'connecting',
  connectingTo: (peers: readonly { rank: number; isRelayed: boolean }[]) =>
    peers.length === 0
      ? ''
      : ` to ${list(peers.map(({ rank, isRelayed }) => `rank ${rank}${isRelayed ? ' over a relay' : ''}`))}`,
  syncing: 'syncing',
  syncingAbout: ': all must start from the same numbers',
  syncingFiles: ': the files go from tab to tab',
  training: 'training',
  trainingServerAway: '; the signaling server is away, which only joining and leaving need',
  trainingOthersJoin: '; others are joining',
  paused: 'paused',
  pausedFor: (more: number) => `: waiting for ${plural(more, 'more tab')}`,
  pausedByHost: ' by the host',
  watching: 'watching',
  watchingNothing: ': nothing trains yet',
  comingBack: 'coming back',
  comingBackAbout: ': this tab was let go, and the others train on meanwhile',
  rejoining: 'rejoining',
  rejoiningAbout: (gone: readonly number[]) =>
    `: ${gone.length === 0 ? '' : `${ranks(gone)} left, `}finding together again`,
  /** The title of a browser's tab whose page nobody sees. */
  inBackground: (step: number, of: number | null) =>
    `Step ${step}${of === null ? '' : ` of ${of}`}, training in the background`,
};
