import { hashState } from '../util/hash.ts';

/**
 * Room codes: six characters that people can read aloud, without 0 O 1 I L. 31^6 = 887 million
 * codes, drawn by the server from a cryptographic source; the server limits wrong guesses.
 */
export const ROOM_CODE_ALPHABET = 'ABCDEFGHJKMNPQRSTUVWXYZ23456789';
export const ROOM_CODE_LENGTH = 6;

const CODE = new RegExp(`^[${ROOM_CODE_ALPHABET}]{${ROOM_CODE_LENGTH}}$`);

/** What a person typed (`k7f-3qx`, ` K7F 3QX`) as a room code, or `null` when it cannot be one. */
export function parseRoomCode(text: string): string | null {
  const code = text.toUpperCase().replaceAll(/[\s-]/g, '');
  return CODE.test(code) ? code : null;
}

/**
 * The code that `text` stands for, the same on every machine: for those that agreed on a text and
 * not on a server's code.
 */
export function roomCodeOf(text: string): string {
  let rest = BigInt(`0x${hashState([new TextEncoder().encode(text)])}`);
  const base = BigInt(ROOM_CODE_ALPHABET.length);
  let code = '';
  while (code.length < ROOM_CODE_LENGTH) {
    code += ROOM_CODE_ALPHABET[Number(rest % base)];
    rest /= base;
  }
  return code;
}

/** `K7F3QX` as people read it: `K7F-3QX`. */
export function formatRoomCode(code: string): string {
  return `${code.slice(0, 3)}-${code.slice(3)}`;
}
