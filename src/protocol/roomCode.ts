import { hashOfArrays } from '../util/hash.ts';

/**
 * Room codes: six characters that are easy to read aloud, without 0 O 1 I L. The server draws them
 * from 31^6 = 887 million codes with a cryptographic source, and limits wrong guesses.
 */
export const ROOM_CODE_ALPHABET = 'ABCDEFGHJKMNPQRSTUVWXYZ23456789';
export const ROOM_CODE_LENGTH = 6;

const CODE = new RegExp(`^[${ROOM_CODE_ALPHABET}]{${ROOM_CODE_LENGTH}}$`);

/** Parses a room code as typed (`k7f-3qx`, ` K7F 3QX`); `null` if it is invalid. */
export function parseRoomCode(text: string): string | null {
  const code = text.toUpperCase().replaceAll(/[\s-]/g, '');
  return CODE.test(code) ? code : null;
}

/**
 * Derives a code from `text`. The code is the same on every machine, so tabs that know the same
 * text find the same room.
 */
export function roomCodeFromText(text: string): string {
  let rest = BigInt(`0x${hashOfArrays([new TextEncoder().encode(text)])}`);
  const base = BigInt(ROOM_CODE_ALPHABET.length);
  let code = '';
  while (code.length < ROOM_CODE_LENGTH) {
    code += ROOM_CODE_ALPHABET[Number(rest % base)];
    rest /= base;
  }
  return code;
}

/**
 * Returns the server's message for a room that does not exist.
 *
 * @param returnMs milliseconds for which tabs may still return to a server that has just started;
 *   0 if this time is over.
 */
export function noRoomMessage(code: string, returnMs = 0): string {
  const text = `There is no room ${code} here. Check the code.`;
  if (returnMs <= 0) return text;
  return `${text} If it was open a moment ago, try again in ${Math.ceil(returnMs / 1000)} s: the server has restarted, and the room's tabs may not have returned.`;
}

/** Formats `K7F3QX` as `K7F-3QX`. */
export function formatRoomCode(code: string): string {
  return `${code.slice(0, 3)}-${code.slice(3)}`;
}
