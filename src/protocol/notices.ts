/**
 * Notices about a run for people, as data: each page writes them in its own language, and logs
 * write them in English.
 */
import * as v from 'valibot';
import { MAX_THREAD_TASK_NAME_LENGTH } from '../util/activity.ts';
import { countSchema, displayNameSchema, ordinalSchema, textSchema } from './scalars.ts';

/** Reasons for a suspension. */
const SUSPENSION_REASONS = [
  'unreachable',
  'unstable',
  'late',
  'stuck',
  'hanging',
  'alone',
  'failing',
  'apart',
] as const;

/** The task of a rank that does not answer, and for how long the rank has not answered. */
const hanging = { task: textSchema(MAX_THREAD_TASK_NAME_LENGTH), seconds: countSchema };

export const Notice = v.variant('code', [
  /** The run has ended without a tab, which had lost its place in the room. */
  v.strictObject({ code: v.literal('lost-place') }),
  /** The run has ended while a tab was not connected to the server. */
  v.strictObject({ code: v.literal('missed-end') }),
  /** A rank does not answer; the run ends, or continues without it. */
  v.strictObject({
    code: v.literal('hangs'),
    rank: ordinalSchema,
    name: displayNameSchema,
    ...hanging,
    isOver: v.boolean(),
  }),
  /** This tab does not answer. */
  v.strictObject({ code: v.literal('hangs-here'), ...hanging }),
  /** The run continues without this tab for `seconds`. */
  v.strictObject({ code: v.literal('suspended'), reason: v.picklist(SUSPENSION_REASONS), seconds: countSchema }),
]);
export type Notice = v.InferOutput<typeof Notice>;

/** An English text for people. If the text was written from a notice, also the notice. */
export interface NoticeMessage {
  message: string;
  notice?: Notice | undefined;
}

export type NoticeSentences = {
  [Code in Notice['code']]: (notice: Extract<Notice, { code: Code }>) => string;
};

const NETWORK =
  'Check the network of this machine (VPN, firewall, guest Wi-Fi). If the tabs are in different networks, the server needs a TURN relay (--turn) or links through it (--server-links on).';
const SUSPENSIONS: Record<(typeof SUSPENSION_REASONS)[number], string> = {
  unreachable: `The other ranks could not connect to this tab over the network, so they continue without it. ${NETWORK}`,
  unstable: `Links between this tab and other ranks failed more than once, so these ranks continue without this tab. ${NETWORK}`,
  late:
    'The other ranks waited for this tab until their deadline, so they continue without it. Close other programs and tabs on this ' +
    'machine, or ask the host for a smaller batch.',
  stuck:
    'This tab did not end its work of the previous generation, so the other ranks continue without it. If it does not recover by itself, ' +
    'reload it.',
  hanging:
    'This tab computed without an answer for longer than its earlier work allows, so the other ranks continue without it. If it does not ' +
    'recover by itself, reload it.',
  alone:
    'This tab repeatedly reported faults that no other rank saw, so the others continue without it. Reload it, and check ' +
    'its network.',
  apart:
    'The other ranks are in a network that this tab cannot reach, so they train without it. Use their network, or ask for a ' +
    'server with a TURN relay (--turn) or links through it (--server-links on).',
  failing: `Each generation with this tab failed, so the other ranks continue without it. ${NETWORK}`,
};

export const ENGLISH_NOTICE_SENTENCES: NoticeSentences = {
  'lost-place': () =>
    'The run ended without this tab, which had lost its place in the room: its connection to the server was broken. ' +
    'The tab still has the model of its last step. Save it, or take part in the next run.',
  'missed-end': () => 'The run had already ended when this tab was connected to the room again.',
  hangs: ({ rank, name, task, seconds, isOver }) =>
    `Rank ${rank} (${name}) has computed${task === '' ? '' : ` "${task}"`} for ${seconds} s without an answer, so the ` +
    (isOver ? 'run ended. Reload that page, and start again.' : 'other ranks continue without it.'),
  'hangs-here': ({ task, seconds }) =>
    `This tab has computed${task === '' ? '' : ` "${task}"`} for ${seconds} s without an answer. If it does not go on, reload it.`,
  suspended: ({ reason, seconds }) => `${SUSPENSIONS[reason]} This tab will be tried again within ${seconds} s.`,
};

/** Returns a notice with its text in English. */
export function englishNoticeMessageOf(notice: Notice): NoticeMessage {
  return { message: textOfNotice(notice, ENGLISH_NOTICE_SENTENCES), notice };
}

export function textOfNotice(notice: Notice, sentences: NoticeSentences): string {
  const sentence: (of: never) => string = sentences[notice.code];
  return sentence(notice as never);
}
