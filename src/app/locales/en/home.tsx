/** The front page. */
import type { ComponentChildren } from 'preact';

export const homeTexts = {
  title: 'Train one model in many tabs.',
  lead: (allReduce: ComponentChildren) => (
    <>
      Open this page on several machines. Each tab computes a gradient from its own share of the data. An{' '}
      <span class="nowrap">{allReduce}</span> adds up the gradients, which travel directly from browser to browser.
    </>
  ),
  start: 'Start a room',
  code: 'or type a code',
  join: 'Join',
  lesson: 'or take the lesson alone',
  lessonAbout: 'to learn what an all-reduce is',
  pipeline: 'or the lesson about pipelines',
  pipelineAbout: 'to learn how tabs share a large model',
  network: 'or check the network',
  networkAbout: 'before a lesson with other devices',
  codeLength: (letters: number) => `A code has ${letters} letters and digits, like K7F-3QX.`,
  codeLetters: 'A code never contains 0, O, 1, I or L. Check the code.',
  saved: {
    title: 'Continue a saved run',
    step: (step: number) => `step ${step}`,
    when: (ago: string, room: ComponentChildren) => (
      <>
        saved {ago} in room {room}
      </>
    ),
    roomAbout: 'Join this room if it still exists',
    resume: 'Continue',
    resumeFrom: (name: string, step: number) => `Continue ${name} from step ${step}`,
    delete: 'Delete',
    deleteWhich: (name: string, step: number) => `Delete ${name}, step ${step}`,
    question: 'Delete this run?',
    keep: 'Keep',
  },
};
