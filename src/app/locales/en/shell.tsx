/** Header, footer and dialogs of every page. */
import type { ComponentChildren } from 'preact';

export const shell = {
  /** The title of a browser's tab at home. */
  title: 'train one model in many tabs',
  leave: 'Leave',
  close: 'Close',
  dismiss: 'Dismiss',
  page: 'Page',
  howItWorks: 'How it works',
  largeLetters: 'Large letters, for a projector',
  light: 'Light colours',
  dark: 'Dark colours',
  language: 'Language',
  recording: 'Download flight recording',
  recordingAbout:
    'The last collectives of this rank, as JSON: laid beside the other ranks’, they show who waited for whom',
  /** Errors are told in English, whatever the page's language. */
  failure: (message: ComponentChildren) => <>{message}</>,
  pageMissing: 'This page could not be loaded: check the connection, then reload it.',
  footer: 'Gradients go from browser to browser; the server only introduces them.',
  thoughts: [
    'Every tab holds the same model, and takes its own share of the samples.',
    'From its share each tab computes a gradient: which way every number of the model should move.',
    'The tabs stand in a ring. Each cuts its gradient into as many chunks as there are tabs and passes chunks to the right. In the first round the numbers are added up; in the second the sums are handed out.',
    'Now all tabs hold the same average and take the same step. They stay equal to the last bit, as if one tab had seen all the samples.',
  ],
  straight:
    'The chunks go straight from browser to browser. The server only introduces the tabs to each other; it never sees a gradient.',
  keys: (key: (name: string) => ComponentChildren) => (
    <>
      Keys: {key('Space')} plays and pauses, {key('←')} {key('→')} step, {key('Home')} {key('End')} go to either end,{' '}
      {key('[')} {key(']')} change the speed, {key('?')} opens this, {key('Esc')} closes.
    </>
  ),
};
