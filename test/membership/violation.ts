/** A law that a schedule has seen broken. */
export class Violation extends Error {
  readonly law: string;

  constructor(law: string, message: string) {
    super(`${law}: ${message}`);
    this.name = 'Violation';
    this.law = law;
  }
}
