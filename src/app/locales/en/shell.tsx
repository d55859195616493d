/** Texts of the header, the footer and the dialogs of every page. */
import type { ComponentChildren } from 'preact';

export const shellTexts = {
  /** Title of the browser tab on the home page. */
  title: 'train one model in many tabs',
  leave: 'Leave',
  leaveQuestion: 'Leave the room?',
  leaveAbout: 'The others continue without this tab. A model that is not saved is lost.',
  stay: 'Stay',
  close: 'Close',
  invite: 'Invite others: code, link and QR code',
  dismiss: 'Dismiss',
  page: 'Page',
  howItWorks: 'How it works',
  largeLetters: 'Large letters, for a projector',
  fullScreen: 'Full screen',
  light: 'Light colours',
  dark: 'Dark colours',
  language: 'Language',
  recording: 'Download flight recording',
  recordingAbout:
    'The last collectives of this rank, as JSON. Compare the recordings of several ranks to see who waited for whom',
  /** Error messages are in English in every language. */
  failure: (message: ComponentChildren) => <>{message}</>,
  pageMissing: 'This page could not be loaded. Check the connection, then reload the page.',
  footer: 'Gradients travel from browser to browser. If a network blocks this, the server forwards them.',
  thoughts: [
    'Every tab holds the same model and computes on its own share of the samples.',
    'Each tab computes a gradient from its share: the direction in which every number of the model should change.',
    'The tabs form a ring. Each cuts its gradient into as many chunks as there are tabs and sends chunks to the right. In the first round, the chunks are added up (reduce-scatter). In the second round, the sums are copied to all (all-gather).',
    'All tabs now hold the same average and take the same step. So their models stay equal to the last bit, and learn as if one tab had seen all samples.',
  ],
  straight:
    'The chunks travel directly from browser to browser. The server only helps tabs connect; it never sees a gradient.',
  keys: (key: (name: string) => ComponentChildren) => (
    <>
      Keys: {key('Space')} plays and pauses, {key('←')} {key('→')} step, {key('Home')} {key('End')} go to either end,{' '}
      {key('[')} {key(']')} change the speed, {key('?')} opens this help, {key('Esc')} closes it.
    </>
  ),
};
