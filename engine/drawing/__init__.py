"""Pictures of nets and flows."""
