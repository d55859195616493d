/** A room before its run. */
import type { ComponentChildren } from 'preact';
import type { TaskName } from '../../../spec/measures.ts';
import { formatCount, list, plural } from '../format.ts';

export const lobby = {
  invite: 'Invite',
  joinWith: 'Join with the code',
  copy: 'Copy the link',
  copied: 'Copied ✓',
  copyByHand: 'Select the link and copy it by hand',
  qr: (link: string) => `QR code of ${link}`,
  locked: 'Locked: nobody else can join.',
  localOnly: (host: string) =>
    `This page was opened at ${host}, which only this machine can reach. To invite others, open it by this machine’s https address.`,
  ready: (count: ComponentChildren) => <>{count} ready</>,
  count: (ready: number, of: number) => `${ready} of ${of}`,
  watches: 'watches',
  gettingReady: 'getting ready …',
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
  goesOn: (step: number) => `Goes on from step ${step}, which this tab has saved.`,
  beginsWith: (file: string) => `Begins with the weights of ${file}.`,
  start: 'Start',
  waitingForHost: 'Waiting for the host to start.',
  automatic: (at: number, missing: number) =>
    `Starts by itself when ${at} are ready${missing > 0 ? ` (${missing} more)` : ''}.`,
  obstacle: {
    onlySpectators: 'Nobody is ready who trains: this tab only watches.',
    files: 'Choose the data files first.',
    unfit: 'These files cannot be trained on: what is wrong is said above.',
    warming: 'This tab is still getting ready.',
    oneTab: (ready: number) => `Workers in one tab train alone, and ${ready} tabs are ready: choose another strategy.`,
    tooFew: (min: number, ready: number) =>
      `A run here takes ${plural(min, 'tab')}, and ${ready} ${ready === 1 ? 'is' : 'are'} ready.`,
  },
  note: {
    unready: (names: readonly string[], isOpen: boolean) => {
      const who = names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} others` : list(names);
      return `${who} ${names.length === 1 ? 'is' : 'are'} not ready, and ${isOpen ? 'will join a little later' : 'would sit this run out'}.`;
    },
    workers: (count: number) => `This tab starts ${plural(count, 'worker')}.`,
    laterOpen: 'Who comes later joins while it trains.',
    laterFixed: 'Who comes later can join when the run has ended.',
    oneAlone: 'One tab can start alone; there is nothing to exchange then.',
    alone: 'You can start alone; there is nothing to exchange then.',
    all: (tabs: number) => `All ${tabs} tabs are ready.`,
  },
  outside: {
    watching: 'This room is training: you will see it in a moment.',
    next: 'This room is training: you can join its next run.',
    connecting: 'Connecting: this tab trains in a moment.',
    paused: (more: number) => `This room’s run is paused: it goes on when ${plural(more, 'more tab')} can take part.`,
    held: 'The host has paused this room’s run: you will join when it goes on.',
    unready: 'This room is training: you will join once this tab is ready.',
    full: 'This room is training with as many tabs as it may: you will join when one leaves.',
    soon: 'This room is training: you will join in a moment.',
  },
  files: {
    choose: {
      mnist: 'Choose the MNIST files',
      images: 'Choose files',
      table: 'Choose a CSV file',
      gpt: 'Choose a text',
    },
    chooseFolder: 'Choose a folder',
    drop: {
      mnist: 'Or drop them here: images and labels (IDX, gzipped or not). One pair will do.',
      images:
        'Or drop them here: a folder or zip file of pictures, in a folder for each class; a pair of IDX files; an npz file with x and y.',
      table: 'Or drop it here: a line of names, and rows below. What columns hold is guessed.',
      gpt: 'Or drop it here: plain text (UTF-8). Several files are read one after the other, by their names.',
    },
    stay: 'They stay in this tab; every tab needs the same files.',
    own: 'They stay in this tab, which alone learns from them. Others get gradients, and hear the names of classes, which characters a text has, and of a table’s columns their names, frequent words, means and spreads.',
    reading: 'Reading the files …',
    count: (files: number) => plural(files, 'file'),
    rows: (rows: number, columns: number) => `${plural(rows, 'row')} and ${plural(columns, 'column')}.`,
    firstRows: 'The first rows',
    noHeader: 'The first line is data and not names, so columns are numbered.',
    rowsLeftOut: (gaps: readonly { field: string; rows: number }[]) => {
      const rows = gaps.reduce((sum, gap) => sum + gap.rows, 0);
      const reasons = gaps.map((gap) => `${gap.field === '' ? 'empty' : `“${gap.field}”`} in ${formatCount(gap.rows)}`);
      return `${plural(rows, 'row')} ${rows === 1 ? 'is' : 'are'} left out, with nothing to predict: ${list(reasons)}.`;
    },
    columnsLeftOut: (columns: number, why: 'text' | 'empty', names: ComponentChildren) => (
      <>
        {plural(columns, 'column')} {columns === 1 ? 'is' : 'are'} left out,{' '}
        {why === 'text' ? 'with too many different words' : 'without a value'}: {names}.
      </>
    ),
    moreColumns: (columns: number) => `and ${columns} more`,
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
      `${plural(characters, 'character')}, as ${plural(vocabulary, 'different token')}.`,
    samples: (samples: number, heldOut: number) =>
      `${plural(samples, 'sample')}, of which ${formatCount(heldOut)} are held out to test on.`,
    shape: (height: number, width: number, channels: number) =>
      height * width === 1 ? `${plural(channels, 'number')} each.` : `${height} × ${width} × ${channels} each.`,
    ignored: (files: number) => `${plural(files, 'file')} ${files === 1 ? 'is no picture' : 'are no pictures'}.`,
    inFolder: (pictures: number, folder: string) =>
      `${plural(pictures, 'picture')} ${folder === '' ? 'beside the folders' : `in ${folder}`}`,
    leftOut: (folders: readonly string[], others: number) =>
      `Left out, as their folder is not a class: ${folders.join(', ')}${others > 0 ? `, and those in ${plural(others, 'other folder')}` : ''}.`,
    classes: 'Classes',
    more: (classes: number) => `and ${classes} more`,
    pictures: 'Some of them',
  },
  /** Files that the host's tab hands on. */
  sharedFiles: {
    reading: 'Reading the files',
    go: 'They stay among the tabs of this room: when the run starts, they go from this tab to all others.',
    lacking: 'This tab does not have these files any more: choose them again, unless another tab here has them.',
    watching: 'A tab that only watches has no link to hand files on by: let a tab that trains lead the room.',
    none: 'The host has yet to choose the files.',
    fromHost: 'From the host, when the run starts:',
  },
  guests: {
    title: 'What guests see',
    about: 'For those who come by the link or the QR code. Who types the code sees everything.',
    parts: {
      job: 'The job’s settings',
      player: 'The player of the ring',
      grid: 'Who holds what',
      curves: 'Loss and accuracy',
      timeline: 'Where time goes',
      ranks: 'Ranks and links',
      learned: 'What it learned',
    },
  },
  controls: {
    lock: 'Lock the room',
    unlock: 'Unlock the room',
    lockAbout: 'Nobody else can join then; who loses the connection may return',
    unlockAbout: 'Let others join again',
    pause: 'Pause',
    pauseAbout: 'The run waits between two steps, for all; nothing is lost',
    resume: 'Go on',
    resumeAbout: 'Whoever is here then trains on',
    stop: 'Stop the run',
    stopQuestion: 'Stop it for all?',
    stopYes: 'Stop',
    stopNo: 'Go on',
    remove: 'Remove',
    removeWhom: (name: string) => `Remove ${name}`,
    removeQuestion: (name: string) => `Remove ${name}?`,
    keep: 'Keep',
  },
};
