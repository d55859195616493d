/** Texts for a room before its run. */
import type { ComponentChildren } from 'preact';
import type { LoadProgress } from '../../../protocol/events.ts';
import { ENGLISH_DATA_NOTE_SENTENCES } from '../../../spec/preview.ts';
import type { TaskName } from '../../../spec/measures.ts';
import { formatBytes, formatClockDuration, formatCount, formatMs, plural } from '../format.ts';
import { listInWords } from '../../../util/text.ts';

export const lobbyTexts = {
  invite: 'Invite',
  joinWith: 'Join with the code',
  copy: 'Copy the link',
  copied: 'Copied ✓',
  copyByHand: 'Select the link and copy it by hand',
  qr: (link: string) => `QR code of ${link}`,
  locked: 'Locked: nobody else can join.',
  localOnly: (host: string) =>
    `This page was opened at ${host}, which only this machine can reach. To invite others, open the page at an address that they can reach.`,
  /** For a page that was opened at localhost, if the server has told its other addresses. */
  forOthers: (host: string, more: readonly string[], isSecure: boolean) =>
    `You opened this page at ${host}; others reach this machine at the address in the link${more.length === 0 ? '' : ` (or ${more.join(', ')})`}.` +
    (isSecure ? '' : ' Without https, their tabs cannot use WebGPU: start the server with --https.'),
  ready: (count: ComponentChildren) => <>{count} ready</>,
  count: (ready: number, of: number) => `${ready} of ${of}`,
  watches: 'watches',
  gettingReady: 'getting ready …',
  /** A newcomer receives the state of the run while the others train. */
  receives: (percent: number) => `receives the model, ${percent} %`,
  catchesUp: 'has a copy of the model, and catches up',
  you: 'you',
  host: 'host',
  roles: (roles: readonly string[]) => ` (${roles.join(', ')})`,
  preview: 'Preview',
  previewLabel: (ranks: number) => `${plural(ranks, 'rank')}.`,
  jobWith: (job: ComponentChildren, model: ComponentChildren) => (
    <>
      {job} <span class="dim">with</span> {model}
    </>
  ),
  resumes: (step: number) => `The run continues from step ${step}, which this tab has saved.`,
  beginsWith: (file: string) => `The run begins with the weights of ${file}.`,
  start: 'Start',
  waitingForHost: 'Waiting for the host to start.',
  automatic: (at: number, missing: number) =>
    `The run starts automatically when ${plural(at, 'tab')} ${at === 1 ? 'is' : 'are'} ready${missing > 0 ? ` (${missing} more needed)` : ''}.`,
  /** While shaders are compiled for this tab's GPU. */
  shaders: 'Compiled shaders',
  receiving: 'Received model',
  receivedOf: (bytes: number, total: number, rate: number | null) =>
    `${formatBytes(bytes)} of ${formatBytes(total)}` +
    (rate === null ? '' : `, ${formatBytes(rate)}/s, ${formatClockDuration(((total - bytes) / rate) * 1000)} left`),
  waits: (needs: number, left: number) =>
    `Receiving the model takes ${formatClockDuration(needs * 1000)}, but the run changes the model sooner than that. The other tabs continue to train, and this tab joins in about ` +
    `${plural(Math.ceil(left / 60), 'minute')}.`,
  loading: 'Loaded data',
  loadedOf: ({ unit, done, total, rate }: LoadProgress) =>
    `${formatBytes(done)} of ${formatBytes(total)} ${unit === 'bytes' ? 'received' : 'read'}` +
    (rate === undefined ? '' : `, ${formatBytes(rate)}/s`),
  shadersOf: (compiled: number, total: number) => `${compiled} of ${total} shaders`,
  obstacle: {
    onlySpectators: 'This tab only watches, and no tab that trains is ready.',
    files: 'Choose the data files first.',
    unfit: 'These files cannot be used: see the error above.',
    warming: 'This tab is still getting ready.',
    tooFew: (min: number, ready: number) =>
      `A run needs at least ${plural(min, 'tab')}; ${ready} ${ready === 1 ? 'is' : 'are'} ready.`,
    algorithm: (problem: string) => `${problem} Choose another algorithm, or wait for more tabs.`,
  },
  /** The algorithm `auto` compared with the ring, by the cost model. */
  auto: {
    wouldSave: (tabs: number, name: string, autoMs: number, ringMs: number) =>
      `For ${tabs} tabs, “auto” would choose ${name}: the all-reduces of a step take about ${autoMs} ms instead of ${ringMs} ms on the ring (estimated for typical Wi-Fi).`,
    saves: (tabs: number, name: string, autoMs: number, ringMs: number) =>
      `For ${tabs} tabs, “auto” chooses ${name}: the all-reduces of a step take about ${autoMs} ms instead of ${ringMs} ms on the ring (estimated for typical Wi-Fi).`,
    ring: (tabs: number) => `For ${tabs} tabs, “auto” chooses the ring.`,
  },
  note: {
    unready: (names: readonly string[], isOpen: boolean) => {
      const who =
        names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} others` : listInWords(names);
      return `${who} ${names.length === 1 ? 'is' : 'are'} not ready and ${isOpen ? 'will join later' : 'would miss this run'}.`;
    },
    /** Two sentences, one after the other. */
    sentences: (first: string, second: string) => `${first} ${second}`,
    laterOpen: 'Tabs that arrive after the start join the run.',
    laterFixed: 'Tabs that arrive after the start can join when the run has ended.',
    oneAlone: 'One tab can start alone. It then has nothing to exchange.',
    alone: 'You can start alone. Your tab then has nothing to exchange.',
    all: (tabs: number) => `All ${tabs} tabs are ready.`,
  },
  /** Links through the server, before a run. */
  server: {
    pairs: (pairs: number, of: number) =>
      of === 1
        ? 'The data of the two tabs will go through the server.'
        : `The data of ${pairs === of ? `all ${pairs}` : `${pairs} of ${of}`} pairs of neighbours will go through the server.`,
    step: (bytes: number, rate: number, ms: number) =>
      `In each step, the server forwards ${formatBytes(bytes)} of gradients. This takes at least ${formatMs(ms)}, because all rooms share its rate of ${formatBytes(rate)}/s.`,
    only: 'The server is set to forward the data of all pairs (--server-links only). Start it without this option to use direct connections.',
    remedy:
      'These tabs could not connect directly. A network without client isolation helps, or a TURN server (--turn).',
  },
  /** For a tab in the lobby while there is a run. */
  outside: {
    /** The first sentence. One of the sentences below follows it. */
    phases: {
      SYNCING: 'This room is getting ready to train.',
      RUNNING: 'This room is training.',
      PAUSED: 'The run of this room is paused.',
    },
    watching: 'You will see the run in a moment.',
    next: 'You can join its next run.',
    unready: 'You will join when this tab is ready.',
    full: 'The run is full: you will join when a tab leaves.',
    soon: 'You will join in a moment.',
    connecting: 'Connecting. This tab will train in a moment.',
    preparing: 'This tab is getting ready. It will then train.',
    paused: (more: number) => `The run is paused. It resumes when ${plural(more, 'more tab')} can take part.`,
    pausedByHost: 'The host has paused the run. You will join when it resumes.',
  },
  files: {
    choose: {
      mnist: 'Choose the MNIST files',
      images: 'Choose files',
      table: 'Choose a table (CSV, Parquet or xlsx)',
      gpt: 'Choose a text',
    },
    chooseFolder: 'Choose a folder',
    drop: {
      mnist: 'Or drop them here: images and labels (IDX, gzipped or not). One pair is enough.',
      images:
        'Or drop them here: a folder or zip file with one folder of pictures per class, a pair of IDX files, or an npz file with x and y.',
      table: 'Or drop it here: a line of column names, then rows. Column types are detected.',
      gpt: 'Or drop it here: plain text (UTF-8). Several files are read in the order of their names.',
    },
    stay: 'The files stay in this tab; every tab needs the same ones.',
    own: 'The files stay in this tab, and only this tab trains on them. Other tabs receive only gradients and some facts about the data: the names of classes, the characters of a text, and, for each column of a table, its name, frequent words, mean and deviation.',
    reading: 'Reading the files …',
    count: (files: number) => plural(files, 'file'),
    rows: (rows: number, columns: number) => `${plural(rows, 'row')} and ${plural(columns, 'column')}.`,
    firstRows: 'The first rows',
    notes: ENGLISH_DATA_NOTE_SENTENCES,
    decimalComma: 'with a decimal comma',
    kinds: { number: 'numbers', category: 'categories', text: 'words: left out', empty: 'empty: left out' },
    missing: (rows: number) => `${formatCount(rows)} missing`,
    distinct: (values: number) => `${formatCount(values)} different`,
    predicts: (target: ComponentChildren, task: TaskName | null) => (
      <>
        To predict: {target}
        {task !== null && (task === 'classification' ? ', as a class' : ', as an amount')}.
      </>
    ),
    characters: (characters: number, vocabulary: number) =>
      `${plural(characters, 'character')}; the vocabulary has ${plural(vocabulary, 'token')}.`,
    samples: (samples: number, heldOut: number) =>
      `${plural(samples, 'sample')}, of which ${formatCount(heldOut)} are held out for tests.`,
    shape: (height: number, width: number, channels: number) =>
      height * width === 1 ? `${plural(channels, 'number')} each.` : `${height} × ${width} × ${channels} each.`,
    classes: 'Classes',
    more: (classes: number) => `and ${classes} more`,
    pictures: 'Some of the pictures',
  },
  /** Files that the host shares with all tabs. */
  sharedFiles: {
    reading: 'Reading the files',
    go: 'The files stay in this room. When the run starts, this tab sends them to all others.',
    lacking: 'This tab no longer has these files. Choose them again, unless another tab of the room has them.',
    watching: 'This tab only watches, so it cannot send files. To share files, the host must be a tab that trains.',
    none: 'The host has not chosen the files yet.',
    fromHost: 'The host shares these files when the run starts:',
  },
  guests: {
    title: 'What guests see',
    about:
      'The checked parts are shown to people who open the link or scan the QR code. People who type the code see everything.',
    parts: {
      job: 'The job’s settings',
      player: 'Player of the ring',
      grid: 'Chunks of every rank',
      curves: 'Loss and accuracy',
      timeline: 'Timeline',
      ranks: 'Ranks and links',
      inspection: 'What the model learned',
    },
  },
  controls: {
    lock: 'Lock the room',
    unlock: 'Unlock the room',
    lockAbout: 'Nobody else can join; members who lose the connection may return',
    unlockAbout: 'Allow others to join again',
    pause: 'Pause the run',
    pauseAbout: 'All tabs wait after the current step; nothing is lost',
    resume: 'Resume the run',
    resumeAbout: 'The run continues with the tabs that are present',
    stop: 'Stop the run',
    stopQuestion: 'Stop it for all?',
    stopYes: 'Stop',
    stopNo: 'Continue',
    remove: 'Remove',
    removeWhom: (name: string) => `Remove ${name}`,
    removeAbout: 'The tab leaves the room. If it must not return, lock the room, too',
    removeQuestion: (name: string) => `Remove ${name}?`,
    keep: 'Keep',
  },
};
