/** The front page. */
import type { ComponentChildren } from 'preact';

export const home = {
  title: 'Train one model in many tabs.',
  lead: (allReduce: ComponentChildren) => (
    <>
      Open this page on a few machines. Each tab computes on its own share of the data; then the tabs add up what they
      found, by an <span class="nowrap">{allReduce},</span> straight from browser to browser.
    </>
  ),
  start: 'Start a room',
  code: 'or type a code',
  join: 'Join',
  lesson: 'or run the lesson alone',
  lessonAbout: 'what an all-reduce is, by adding up a few numbers',
  codeLength: (letters: number) => `A code has ${letters} letters and digits, like K7F-3QX.`,
  codeLetters: 'A code never has 0, O, 1, I or L in it: look again.',
  saved: {
    title: 'Go on where you were',
    step: (step: number) => `step ${step}`,
    when: (ago: string, room: ComponentChildren) => (
      <>
        saved {ago} in room {room}
      </>
    ),
    roomAbout: 'Join the room, if it is still there',
    goOn: 'Go on',
    goOnWith: (name: string, step: number) => `Go on with ${name} from step ${step}`,
    delete: 'Delete',
    deleteWhich: (name: string, step: number) => `Delete ${name}, step ${step}`,
    question: 'Delete it?',
    keep: 'Keep',
  },
};
