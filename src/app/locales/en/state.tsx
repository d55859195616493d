/** The state of a tab in words: one word, then the reason. */
import { formatRank, plural } from '../format.ts';
import { listInWords } from '../../../util/text.ts';

const ranks = (of: readonly number[]): string => listInWords(of.map((rank) => formatRank(rank)));

export const stateTexts = {
  finished: 'finished',
  stopped: 'stopped',
  offline: 'not connected',
  waiting: 'waiting',
  waitingFor: {
    server: ': the signaling server cannot be reached; reconnecting',
    next: ' for the next start: the run began without this tab',
    ready: ' to get ready',
    tabs: (more: number) => ` for ${plural(more, 'more tab')}`,
    resume: ' for the host to resume',
    place: ' for a place in the run',
    run: ' to join the run',
    you: ' for you to start',
    host: ' for the host to start',
  },
  warmingUp: 'warming up',
  /** Stages of warm-up. */
  stages: {
    data: ': loading the data',
    generating: ': generating digits',
    compiling: ': compiling the model for this device',
    layers: ': receiving layers of the model',
    recovering: ': the GPU was lost and is being set up again',
    receiving: ': receiving the model while the others train',
  },
  connecting: 'connecting',
  connectingTo: (peers: readonly { rank: number; isRelayed: boolean }[]) =>
    peers.length === 0
      ? ''
      : ` to ${listInWords(peers.map(({ rank, isRelayed }) => `${formatRank(rank)}${isRelayed ? ' over a relay' : ''}`))}`,
  syncing: 'syncing',
  syncingAbout: ': all ranks must start from the same state',
  /** The content that is being distributed. */
  syncingWhat: {
    files: ': files are distributed from tab to tab',
    state: ': a tab that has joined receives the present model',
  },
  training: 'training',
  trainingServerAway:
    '; the signaling server cannot be reached: no tab can join, and if one leaves, training waits for the server',
  trainingOthersJoin: '; the next ring is being connected, because the members or their order changed',
  paused: 'paused',
  pausedFor: (more: number) => `: waiting for ${plural(more, 'more tab')}`,
  pausedByHost: ' by the host',
  watching: 'watching',
  watchingNothing: ': no run yet',
  reconnecting: 'reconnecting',
  reconnectingAbout: ': this tab lost its place in the run; the others continue training',
  rejoining: 'rejoining',
  rejoiningAbout: (gone: readonly number[]) => `: ${gone.length === 0 ? '' : `${ranks(gone)} left, `}reopening links`,
  /** Title of the browser tab while the page is hidden. */
  inBackground: (step: number, of: number | null) =>
    `Step ${step}${of === null ? '' : ` of ${of}`}, training in the background`,
};
