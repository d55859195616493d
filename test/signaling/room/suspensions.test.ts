import { expect, test } from 'vitest';
import { noticeOf } from '../../../signaling/room/suspensions.ts';
import type { Reason } from '../../../signaling/room/records.ts';
import { Play } from './play.ts';

test.each<[Reason, RegExp]>([
  ['unreachable', /could not connect to this tab .* \(--turn\)\. It will be tried again within 30 s\.$/],
  ['unstable', /failed more than once, so they continue without it\. Check the network of this machine/],
  ['late', /Close other programs and tabs on this machine, or ask the host for a smaller batch\. It will be tried/],
  ['stuck', /If it does not recover by itself, reload it\. It will be tried/],
  ['alone', /Reload it, and check its network\. It will be tried/],
  ['failing', /^Each generation with this tab failed/],
])('the notice of a suspension for "%s" gives the reason and the time', (reason, sentence) => {
  const { state } = Play.running(1, { nodes: { min: 1, max: 4 } });
  const suspension = { id: 1, times: 1, reason, isOn: true };
  const notice = noticeOf({ ...state, suspensions: new Map([['Ada', suspension]]) }, 'Ada');
  expect(notice).toMatchObject({ type: 'send', message: { type: 'suspended' } });
  const { message } = notice as { message: { message: string } };
  expect(message.message).toMatch(sentence);
  expect(message.message).not.toMatch(/NaN|undefined/);
});
